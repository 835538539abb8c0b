package serverstate

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/policies"
)

// How often the API server is asked. An upgrade changes its version.
const (
	versionInterval = 5 * time.Minute
	policyInterval  = time.Minute
)

// Version follows the version of the API server, such as v1.36.3.
func Version(api discovery.ServerVersionInterface, log *slog.Logger) *Followed[string] {
	return NewFollowed(versionInterval, log, func(context.Context) (string, error) {
		info, err := api.ServerVersion()
		if err != nil {
			return "", fmt.Errorf("version of the API server: %w", err)
		}
		return info.GitVersion, nil
	})
}

// Policies follows which policies of host machines are not in force: without them a version that
// machines run could be deleted. Run on the leader alone; elsewhere nothing is missing.
type Policies struct{ *Followed[[]string] }

// NewPolicies returns what follows them in an API server.
func NewPolicies(live client.Reader, log *slog.Logger) Policies {
	return Policies{NewFollowed(policyInterval, log, func(ctx context.Context) ([]string, error) {
		labelled := client.HasLabels{policies.HostLabel}
		var installed admissionregistrationv1.ValidatingAdmissionPolicyList
		if err := live.List(ctx, &installed, labelled); err != nil {
			return nil, fmt.Errorf("list ValidatingAdmissionPolicies: %w", err)
		}
		var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
		if err := live.List(ctx, &bindings, labelled); err != nil {
			return nil, fmt.Errorf("list ValidatingAdmissionPolicyBindings: %w", err)
		}
		missing, err := policies.Missing(installed.Items, bindings.Items)
		if len(missing) > 0 {
			log.ErrorContext(ctx, "policies of host machines are missing", "missing", missing)
		}
		return missing, err
	})}
}

// Ready is a check of readiness.
func (p Policies) Ready(*http.Request) error {
	if missing := p.Get(); len(missing) > 0 {
		return fmt.Errorf("policies of host machines are missing, install the chart with hosts.enabled: %s", strings.Join(missing, "; "))
	}
	return nil
}
