package webhookcert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/credentials/secrets"
)

// trustInterval is how often the API server's view is compared.
const trustInterval = time.Minute

// Trust has the API server trust the authorities in the Secret. One replica runs it, the
// leader. It needs the rights to get secrets, and to get and patch the two webhook
// configurations of that name. The fields are required and do not change.
type Trust struct {
	Store         secrets.Store
	Secret        string
	Client        client.Client // reads of the configurations must not come from a cache
	Configuration string        // name of the validating and of the mutating configuration
	Log           *slog.Logger
}

// Run compares every minute until ctx ends, and returns nil. A configuration that is not
// installed is passed over.
func (t *Trust) Run(ctx context.Context) error {
	return repeat(ctx, trustInterval, t.once, func(err error) {
		t.Log.WarnContext(ctx, "caBundle not updated", "error", err)
	})
}

func (t *Trust) once(ctx context.Context) error {
	stored, err := t.Store.Get(ctx, t.Secret)
	if err != nil {
		return err
	}
	authorities := stored.Data[authoritiesEntry]
	if len(authorities) == 0 {
		return fmt.Errorf("secret %s has no %s yet", t.Secret, authoritiesEntry)
	}
	validating, mutating := &admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}
	return errors.Join(
		t.announce(ctx, validating, func() bool {
			changed := false
			for i := range validating.Webhooks {
				changed = replace(&validating.Webhooks[i].ClientConfig, authorities) || changed
			}
			return changed
		}),
		t.announce(ctx, mutating, func() bool {
			changed := false
			for i := range mutating.Webhooks {
				changed = replace(&mutating.Webhooks[i].ClientConfig, authorities) || changed
			}
			return changed
		}),
	)
}

// announce reads a configuration into o and patches it if change did anything.
func (t *Trust) announce(ctx context.Context, o client.Object, change func() bool) error {
	err := t.Client.Get(ctx, types.NamespacedName{Name: t.Configuration}, o)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get %T %s: %w", o, t.Configuration, err)
	}
	before, _ := o.DeepCopyObject().(client.Object)
	if !change() {
		return nil
	}
	// Lists are replaced as a whole, so nobody may have changed them meanwhile.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := t.Client.Patch(ctx, o, patch); err != nil {
		return fmt.Errorf("patch %T %s: %w", o, t.Configuration, err)
	}
	t.Log.InfoContext(ctx, "updated caBundle", "configuration", t.Configuration)
	return nil
}

func replace(c *admissionregistrationv1.WebhookClientConfig, authorities []byte) bool {
	if bytes.Equal(c.CABundle, authorities) {
		return false
	}
	c.CABundle = authorities
	return true
}
