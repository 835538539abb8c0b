package webhooks_test

import (
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/operator/webhooks"
)

// hook is the configuration of an operator that was installed so many minutes after the
// first one, for these namespaces; none: all.
func hook(name string, minute int, namespaces ...string) admissionregistrationv1.MutatingWebhookConfiguration {
	except := []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", name}}}
	if len(namespaces) > 0 {
		except = append(except, metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces})
	}
	made := time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC)
	return admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(made)},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: webhooks.PodWebhook, NamespaceSelector: &metav1.LabelSelector{MatchExpressions: except}}},
	}
}

func TestO14_TwoOperatorsDoNotServeTheSamePods(t *testing.T) {
	foreign := hook("injector", 0)
	foreign.Webhooks[0].Name = "inject.example.com"
	for _, tt := range []struct {
		name  string
		all   []admissionregistrationv1.MutatingWebhookConfiguration
		rival string // empty: none
	}{
		{"alone", []admissionregistrationv1.MutatingWebhookConfiguration{hook("red", 5), foreign}, ""},
		{"both for all", []admissionregistrationv1.MutatingWebhookConfiguration{hook("red", 5), hook("blue", 1)}, "blue"},
		{"both for all, and this one was first", []admissionregistrationv1.MutatingWebhookConfiguration{hook("red", 1), hook("blue", 5)}, ""},
		{"installed in the same second", []admissionregistrationv1.MutatingWebhookConfiguration{hook("red", 1), hook("blue", 1)}, "blue"},
		{"each has its own", []admissionregistrationv1.MutatingWebhookConfiguration{hook("red", 5, "r"), hook("blue", 1, "b", "c")}, ""},
		{"one namespace is in both", []admissionregistrationv1.MutatingWebhookConfiguration{hook("red", 5, "r", "x"), hook("blue", 1, "x", "b")}, "blue"},
		{"the other is for all", []admissionregistrationv1.MutatingWebhookConfiguration{hook("red", 5, "r"), hook("blue", 1)}, "blue"},
		{"the other is for all but this", []admissionregistrationv1.MutatingWebhookConfiguration{hook("red", 5, "blue"), hook("blue", 1)}, ""},
		{"this one is for all", []admissionregistrationv1.MutatingWebhookConfiguration{hook("red", 5), hook("blue", 1, "b")}, "blue"},
		{"no webhook of this one", []admissionregistrationv1.MutatingWebhookConfiguration{hook("blue", 1)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := webhooks.Rival(tt.all, "red")
			if (err != nil) != (tt.rival != "") || err != nil && !strings.Contains(err.Error(), "MutatingWebhookConfiguration "+tt.rival+" serves") {
				t.Errorf("got %v", err)
			}
		})
	}
}
