package manager

import (
	"errors"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// addChecks says what a healthy and what a ready process is. Shards count for neither, nor
// does a registration: a process that is started again reaches them no better, and condition
// OperatorRegistered of the NstanceCluster says what is missing.
func (p *process) addChecks() error {
	errs := []error{
		p.mgr.AddHealthzCheck("process", healthz.Ping),
		p.mgr.AddReadyzCheck("caches", unlessSet(p.cached.Load, "caches are not filled yet")),
		p.mgr.AddReadyzCheck("kinds", unlessSet(func() bool { return !p.leads.Load() || p.served.Load() }, "the operator waits for kinds of the API server")),
	}
	if p.settings.Webhooks {
		errs = append(errs, p.mgr.AddHealthzCheck("webhooks", p.mgr.GetWebhookServer().StartedChecker()))
	}
	if p.hooks != nil {
		errs = append(errs, p.mgr.AddReadyzCheck("webhook-certificate", p.hooks.Ready))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("probes: %w", err)
	}
	return nil
}

func unlessSet(set func() bool, otherwise string) healthz.Checker {
	return func(*http.Request) error {
		if set() {
			return nil
		}
		return errors.New(otherwise)
	}
}
