//go:build kube && operator

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/lifecycle"
)

// M51, M52: a Node is deleted while the API server answers the operator with everything but the truth: no node is
// touched. When it says again what is so, the machine is repaved.
func TestM51M52_AnAPIServerThatDoesNotAnswer(t *testing.T) {
	ownCluster(t)
	l := newLives(t)
	l.configure(t)
	l.run()
	id := hostIDs(t, 1)[0]
	l.idle(id)
	l.await(id, "the machine has joined", joined(1))
	for i, tt := range []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
	}{
		{"403", says(http.StatusForbidden, metav1.StatusReasonForbidden)},
		{"500", says(http.StatusInternalServerError, metav1.StatusReasonInternalError)},
		{"504", says(http.StatusGatewayTimeout, metav1.StatusReasonTimeout)},
		{"404 of a proxy", says(http.StatusNotFound, "")},
		{"no connection", func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }},
		{"no answer in time", func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}},
	} {
		l.deaf.set(tt.answer)
		if i == 0 {
			l.deleteNode(id)
		}
		kube.Await(t, tt.name+": it is asked twice", func(context.Context) error {
			if n := l.deaf.times(); n < 2 {
				return fmt.Errorf("it was asked %d times", n)
			}
			return nil
		})
		m := &hostsv1.HostMachine{}
		if err := l.admin.Get(t.Context(), client.ObjectKey{Name: id}, m); err != nil {
			t.Fatal(err)
		}
		if all := l.published(); len(all) != 1 || m.Status.NodeRef.UID == "" {
			t.Fatalf("%s: published %v, node %+v", tt.name, all, m.Status.NodeRef)
		}
	}
	l.deaf.set(nil)
	l.await(id, "the machine is repaved", joined(2))
}

// M87: a script deletes a fifth of a fleet's Nodes within a minute: one machine is repaved at a time, the next one as soon as
// it has joined, until a user releases the brake; then all of them are.
func TestM87_AScriptDeletesAFifthOfAFleet(t *testing.T) {
	ownCluster(t)
	const oneByOne = 5
	fleet := *hostFleet
	gone := fleet / 5
	l := newLives(t)
	l.took = 100 * time.Millisecond
	l.configure(t)
	ids := hostIDs(t, fleet)
	l.known.list(ids...)
	l.awaitDesired(t, fleet, 1, hostsv1.ReasonNotPaved)
	content, err := l.versions.Lock(t.Context(), "gpu", 1, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	var made errgroup.Group
	made.SetLimit(16)
	for _, id := range ids {
		made.Go(func() error { return l.settled(id, content.Reference) })
	}
	if err := made.Wait(); err != nil {
		t.Fatal(err)
	}
	l.run()
	l.await(ids[fleet-1], "the controller has seen the fleet", joined(1))
	began := time.Now()
	var script errgroup.Group
	script.SetLimit(16)
	for _, id := range ids[:gone] {
		script.Go(func() error {
			return l.admin.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: id}})
		})
	}
	if err := script.Wait(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Fatalf("the script took %v", took)
	}
	repaved := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.puts) - len(l.repaving)
	}
	// Those that come before the limit is passed are not held: a tenth of the fleet.
	limit := lifecycle.Limit(fleet)
	kube.Await(t, "the brake is on", func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.notices) == 0 || !strings.HasPrefix(l.notices[0], hostsv1.EventFleetBrake) {
			return fmt.Errorf("notices %v", l.notices)
		}
		return nil
	})
	kube.Await(t, "what was begun before that is over", func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.repaving) > 1 {
			return fmt.Errorf("%d are repaved", len(l.repaving))
		}
		l.most = len(l.repaving)
		return nil
	})
	if n := repaved(); n > limit {
		t.Errorf("%d of %d were repaved before the brake was on", n, gone)
	}
	from := repaved()
	kube.Await(t, fmt.Sprintf("%d more are repaved", oneByOne), func(context.Context) error {
		if n := repaved(); n < from+oneByOne {
			return fmt.Errorf("%d are", n-from)
		}
		return nil
	})
	l.mu.Lock()
	if l.most != 1 || len(l.puts) == gone {
		t.Errorf("%d were repaved at once, %d of %d in all", l.most, len(l.puts), gone)
	}
	l.mu.Unlock()
	kube.Await(t, "the brake is released", func(ctx context.Context) error {
		c := &hostsv1.MachineConfiguration{}
		if err := l.admin.Get(ctx, client.ObjectKey{Name: "gpu"}, c); err != nil {
			return err
		}
		c.Annotations = map[string]string{hostsv1.AnnotationReleaseBrake: "meant"}
		return l.admin.Update(ctx, c)
	})
	kube.Await(t, "all of them are repaved", func(context.Context) error {
		if n := repaved(); n < gone {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most < 2 || len(l.puts) != gone {
		t.Errorf("after the release %d were repaved at once, %d in all", l.most, len(l.puts))
	}
}
