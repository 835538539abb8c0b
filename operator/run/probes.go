package run

import (
	"errors"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
)

// addChecks says what a healthy and what a ready process is. Shards count for neither: a
// process that is started again reaches them no better.
func (p *process) addChecks() error {
	errs := []error{
		p.mgr.AddHealthzCheck("process", healthz.Ping),
		p.mgr.AddReadyzCheck("caches", unlessSet(p.cached.Load, "caches are not filled yet")),
		p.mgr.AddReadyzCheck("identity", func(*http.Request) error {
			if p.leads.Load() && !p.known.Load() {
				return errors.New("the operator has no certificate yet, or waits for kinds of the API server")
			}
			return nil
		}),
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
