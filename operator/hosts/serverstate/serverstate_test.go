package serverstate

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"nstance.dev/operator/policies"
	"nstance.dev/operator/policies/policytest"
	"nstance.dev/operator/testworld"
)

// A leader without the policies of host machines is not ready, and says which are missing. It is
// as soon as they are there; an API server that does not answer changes nothing.
func TestM32_PoliciesAreCheckedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := testworld.NewClientBuilder(t).Build()
		var fails atomic.Bool
		live := interceptor.NewClient(api, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if fails.Load() {
					return errors.New("no answer")
				}
				return c.List(ctx, list, opts...)
			},
		})
		h := NewPolicies(live, slog.New(slog.DiscardHandler))
		if err := h.Ready(nil); err != nil {
			t.Errorf("a standby is not ready: %v", err)
		}
		go func() {
			if err := h.Start(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		if err := h.Ready(nil); err == nil || !strings.Contains(err.Error(), "versions-in-use: the ValidatingAdmissionPolicy does not exist") {
			t.Errorf("without policies: %v", err)
		}
		all, err := policies.Hosts(policytest.Params)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if err := errors.Join(api.Create(t.Context(), p.Policy), api.Create(t.Context(), p.Binding)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(policyInterval)
		synctest.Wait()
		if err := h.Ready(nil); err != nil {
			t.Errorf("with all policies: %v", err)
		}
		fails.Store(true)
		time.Sleep(10 * policyInterval)
		synctest.Wait()
		if err := h.Ready(nil); err != nil {
			t.Errorf("an outage makes the operator unready: %v", err)
		}
		fails.Store(false)
		if err := api.Delete(t.Context(), all[0].Binding); err != nil {
			t.Fatal(err)
		}
		time.Sleep(policyInterval)
		synctest.Wait()
		if h.Ready(nil) == nil {
			t.Error("a binding that is deleted is not missed")
		}
	})
}

// What was heard last of the API server counts until it says something else.
func TestFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer atomic.Value // "": there is none
		answer.Store("")
		f := NewFollowed(time.Minute, slog.New(slog.DiscardHandler), func(context.Context) (string, error) {
			if version := answer.Load().(string); version != "" {
				return version, nil
			}
			return "", errors.New("no answer")
		})
		f.Ask(t.Context())
		if got := f.Get(); got != "" {
			t.Errorf("before the first answer %q", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Start(ctx) }()
		synctest.Wait()
		answer.Store("v1.36.3")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := f.Get(); got != "v1.36.3" {
			t.Errorf("after an answer %q", got)
		}
		answer.Store("")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := f.Get(); got != "v1.36.3" {
			t.Errorf("during an outage %q", got)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
