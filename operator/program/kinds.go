package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// How long a program waits for kinds.
const (
	kindsInterval = 10 * time.Second
	kindsPatience = 5 * time.Minute
)

// Kind is a kind that a program cannot work without.
type Kind struct {
	Version schema.GroupVersion
	Name    string
	Remedy  string // what to do where it is missing
}

// Missing names the kinds that are not among those served, each with its remedy.
func Missing(kinds []Kind, served map[schema.GroupVersion][]string) []string {
	var out []string
	for _, need := range kinds {
		if !slices.Contains(served[need.Version], need.Name) {
			out = append(out, fmt.Sprintf("%s in %s (%s)", need.Name, need.Version, need.Remedy))
		}
	}
	return out
}

// served asks an API server which kinds of those groups it serves.
func served(kinds []Kind, api discovery.ServerResourcesInterface) (map[schema.GroupVersion][]string, error) {
	all := map[schema.GroupVersion][]string{}
	for _, need := range kinds {
		if _, asked := all[need.Version]; asked {
			continue
		}
		all[need.Version] = nil
		list, err := api.ServerResourcesForGroupVersion(need.Version.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("kinds of %s: %w", need.Version, err)
		}
		for _, r := range list.APIResources {
			all[need.Version] = append(all[need.Version], r.Kind)
		}
	}
	return all, nil
}

// AwaitKinds returns nil once an API server serves all kinds, and an error when that took too long. Meanwhile it answers
// probes as [AwaitAPI] does, where it has an address for that; a process whose manager answers them gives it none.
func AwaitKinds(ctx context.Context, kinds []Kind, api discovery.ServerResourcesInterface, probes string, log *slog.Logger) error {
	stop := func() {}
	defer func() { stop() }()
	for waited := time.Duration(0); ; waited += kindsInterval {
		all, err := served(kinds, api)
		if absent := Missing(kinds, all); err == nil && len(absent) == 0 {
			return nil
		} else if err == nil {
			err = errors.New("the API server does not serve " + strings.Join(absent, ", "))
		}
		if waited >= kindsPatience {
			return err
		}
		if waited == 0 {
			stop = serveWaiting(ctx, probes, "kinds that the API server does not serve", log)
		}
		log.WarnContext(ctx, "kinds are missing", "error", err, "retry_in", kindsInterval.String())
		if err := Pause(ctx, kindsInterval); err != nil {
			return err
		}
	}
}

// Pause waits, or returns the reason of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
