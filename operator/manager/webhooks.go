package manager

import (
	"context"
	"errors"
	"fmt"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/config"
	"nstance.dev/operator/webhooks"
)

// addWebhooks registers the handlers of the webhooks, on every replica.
func (p *process) addWebhooks() error {
	if !p.settings.Webhooks {
		return nil
	}
	errs := []error{
		ctrl.NewWebhookManagedBy(p.mgr, &infrav1.NstanceMachinePool{}).
			WithValidator(webhooks.PoolValidator{Reader: p.mgr.GetClient()}).
			Complete(),
	}
	if p.settings.OnDemand == config.OnDemandGated {
		errs = append(errs, ctrl.NewWebhookManagedBy(p.mgr, &corev1.Pod{}).
			WithDefaulter(webhooks.PodDefaulter{NewClaim: webhooks.NewClaim, Namespaces: p.settings.OnDemandNamespaces}).
			Complete())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("webhooks: %w", err)
	}
	return nil
}

// alone fails if another operator serves the same Pods.
func alone(ctx context.Context, s config.Settings, live client.Reader) error {
	if !s.Webhooks || s.OnDemand != config.OnDemandGated {
		return nil
	}
	var all registrationv1.MutatingWebhookConfigurationList
	if err := live.List(ctx, &all); err != nil {
		return fmt.Errorf("look for other operators: %w", err)
	}
	return webhooks.Rival(all.Items, s.WebhookConfiguration)
}
