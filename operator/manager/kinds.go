package manager

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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "nstance.dev/operator/api/controlplane/v1beta1"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// How long the operator waits for kinds that an installation may bring in any order.
const (
	kindsInterval = 10 * time.Second
	kindsPatience = 5 * time.Minute
)

// remedies say how to get the kinds of a group and version.
var remedies = map[schema.GroupVersion]string{
	infrav1.GroupVersion:        "install the operator's custom resource definitions",
	controlplanev1.GroupVersion: "install the operator's custom resource definitions",
	clusterv1.GroupVersion:      "install Cluster API 1.11 or later",
}

// missing names the kinds that an API server does not serve, and how to get them.
func missing(kinds []kind, served map[schema.GroupVersion][]string) []string {
	var out []string
	for _, need := range kinds {
		if !slices.Contains(served[need.version], need.String()) {
			out = append(out, fmt.Sprintf("%s in %s (%s)", need, need.version, remedies[need.version]))
		}
	}
	return out
}

// serve asks an API server which kinds of those groups it serves.
func serve(kinds []kind, api discovery.ServerResourcesInterface) (map[schema.GroupVersion][]string, error) {
	served := map[schema.GroupVersion][]string{}
	for _, need := range kinds {
		if _, asked := served[need.version]; asked {
			continue
		}
		served[need.version] = nil
		list, err := api.ServerResourcesForGroupVersion(need.version.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("kinds of %s: %w", need.version, err)
		}
		for _, r := range list.APIResources {
			served[need.version] = append(served[need.version], r.Kind)
		}
	}
	return served, nil
}

// awaitKinds returns nil once all kinds are served, and an error when that took too long.
func awaitKinds(ctx context.Context, kinds []kind, api discovery.ServerResourcesInterface, log *slog.Logger) error {
	for waited := time.Duration(0); ; waited += kindsInterval {
		served, err := serve(kinds, api)
		if absent := missing(kinds, served); err == nil && len(absent) == 0 {
			return nil
		} else if err == nil {
			err = errors.New("the API server does not serve " + strings.Join(absent, ", "))
		}
		if waited >= kindsPatience {
			return err
		}
		log.WarnContext(ctx, "kinds are missing", "error", err, "retry_in", kindsInterval.String())
		if err := pause(ctx, kindsInterval); err != nil {
			return err
		}
	}
}

// pause waits, or returns the reason of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
