package webhooks

import (
	"cmp"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// PodWebhook is the name of the webhook for Pods in its configuration, whatever the name of
// that is.
const PodWebhook = "pods.on-demand.nstance.dev"

// Rival looks among all configurations for one of another operator that serves Pods of the
// same namespaces and was there first; ours is the name of this operator's own. Both would
// make a machine for each of these Pods. The error says how to tell them apart; nil: there
// is none.
func Rival(all []admissionregistrationv1.MutatingWebhookConfiguration, ours string) error {
	i := slices.IndexFunc(all, func(c admissionregistrationv1.MutatingWebhookConfiguration) bool { return c.Name == ours })
	if i < 0 {
		return nil // Pods do not come to this operator
	}
	mine, err := selectionOf(&all[i])
	if err != nil || mine == nil {
		return err
	}
	for j := range all {
		other := &all[j]
		if j == i || !before(other, &all[i]) {
			continue
		}
		theirs, err := selectionOf(other)
		if err != nil {
			return err
		}
		if theirs != nil && mine.meets(*theirs) {
			return fmt.Errorf("the operator of MutatingWebhookConfiguration %s serves Pods of the same namespaces; "+
				"give each operator its own with --on-demand-namespaces (onDemand.namespaces of the chart), or turn this one's off", other.Name)
		}
	}
	return nil
}

// before is whether a configuration was there first; the name decides between two of the
// same second.
func before(a, b *admissionregistrationv1.MutatingWebhookConfiguration) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return cmp.Less(a.Name, b.Name)
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// selection is which namespaces a webhook is asked about.
type selection struct {
	labels.Selector

	named []string // the only ones; nil: any that the selector takes
}

// selectionOf returns that of the webhook for Pods; nil: the configuration has none.
func selectionOf(c *admissionregistrationv1.MutatingWebhookConfiguration) (*selection, error) {
	for i := range c.Webhooks {
		hook := &c.Webhooks[i]
		if hook.Name != PodWebhook {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
		if err != nil {
			return nil, fmt.Errorf("namespaces of MutatingWebhookConfiguration %s: %w", c.Name, err)
		}
		s := &selection{Selector: selector}
		if hook.NamespaceSelector != nil {
			for _, e := range hook.NamespaceSelector.MatchExpressions {
				if e.Key == corev1.LabelMetadataName && e.Operator == metav1.LabelSelectorOpIn {
					s.named = e.Values
				}
			}
		}
		return s, nil
	}
	return nil, nil
}

// meets is whether both may be asked about a Pod of one namespace.
func (s selection) meets(other selection) bool {
	if s.named == nil && other.named == nil {
		return true
	}
	return slices.ContainsFunc(slices.Concat(s.named, other.named), func(namespace string) bool {
		is := labels.Set{corev1.LabelMetadataName: namespace}
		return s.Matches(is) && other.Matches(is)
	})
}
