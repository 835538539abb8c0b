package selection

import (
	"strings"
	"testing"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

func TestSelectors(t *testing.T) {
	m := machine(func(m *hostsv1.HostMachine) {
		m.Labels = map[string]string{"a": "1", "b": "2"}
		m.Spec.Provisioner = "nstance"
		m.Spec.ProviderID = "x://1"
		m.Spec.Instance = &hostsv1.InstanceReference{Shard: "s", Tenant: "t", Group: "g"}
	})
	label := func(key string, operator hostsv1.SelectorOperator, values ...string) *hostsv1.MachineSelector {
		return &hostsv1.MachineSelector{MatchExpressions: []hostsv1.LabelExpression{{Key: key, Operator: operator, Values: values}}}
	}
	fields := func(key hostsv1.MachineField, operator hostsv1.FieldOperator, values ...string) *hostsv1.MachineSelector {
		return &hostsv1.MachineSelector{MatchFields: []hostsv1.FieldExpression{{Key: key, Operator: operator, Values: values}}}
	}
	for name, tt := range map[string]struct {
		selector *hostsv1.MachineSelector
		matches  bool
		wrong    string
	}{
		"absent":                         {nil, false, ""},
		"empty":                          {&hostsv1.MachineSelector{}, true, ""},
		"a label":                        {&hostsv1.MachineSelector{MatchLabels: map[string]hostsv1.LabelValue{"a": "1", "b": "2"}}, true, ""},
		"a label of another value":       {&hostsv1.MachineSelector{MatchLabels: map[string]hostsv1.LabelValue{"a": "1", "b": "3"}}, false, ""},
		"a label that is no label":       {&hostsv1.MachineSelector{MatchLabels: map[string]hostsv1.LabelValue{"a b": "1"}}, false, "matchLabels"},
		"in":                             {label("a", hostsv1.SelectorIn, "0", "1"), true, ""},
		"not in":                         {label("a", hostsv1.SelectorNotIn, "1"), false, ""},
		"not in, without the label":      {label("c", hostsv1.SelectorNotIn, "1"), true, ""},
		"exists":                         {label("a", hostsv1.SelectorExists), true, ""},
		"does not exist":                 {label("a", hostsv1.SelectorDoesNotExist), false, ""},
		"in nothing":                     {label("a", hostsv1.SelectorIn), false, "matchExpressions[0]"},
		"exists with a value":            {label("a", hostsv1.SelectorExists, "1"), false, "matchExpressions[0]"},
		"an unknown operator":            {label("a", "Gt", "1"), false, `unknown operator "Gt"`},
		"a name":                         {fields(hostsv1.FieldName, hostsv1.FieldIn, "m"), true, ""},
		"not a name":                     {fields(hostsv1.FieldName, hostsv1.FieldNotIn, "m"), false, ""},
		"a provisioner":                  {fields(hostsv1.FieldProvisioner, hostsv1.FieldIn, "pxe", "nstance"), true, ""},
		"a provider id":                  {fields(hostsv1.FieldProviderID, hostsv1.FieldIn, "x://2"), false, ""},
		"a shard":                        {fields(hostsv1.FieldShard, hostsv1.FieldIn, "s"), true, ""},
		"a tenant":                       {fields(hostsv1.FieldTenant, hostsv1.FieldIn, "t"), true, ""},
		"a group":                        {fields(hostsv1.FieldGroup, hostsv1.FieldNotIn, "g"), false, ""},
		"on demand":                      {fields(hostsv1.FieldOnDemand, hostsv1.FieldIn, "false"), true, ""},
		"an unknown field":               {fields("status.phase", hostsv1.FieldIn, "Ready"), false, `unknown field "status.phase"`},
		"an unknown operator of a field": {fields(hostsv1.FieldName, "Exists", "m"), false, `unknown operator "Exists"`},
		"a field without values":         {fields(hostsv1.FieldName, hostsv1.FieldIn), false, "no values"},
	} {
		s, err := Parse(tt.selector)
		if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
			t.Errorf("%s: error %v, want %q", name, err, tt.wrong)
		}
		if got := s.Matches(m); got != tt.matches {
			t.Errorf("%s: matches %v, want %v", name, got, tt.matches)
		}
	}
	byHand := machine()
	if must(Parse(fields(hostsv1.FieldOnDemand, hostsv1.FieldIn, "false"))).Matches(byHand) {
		t.Error("a machine without an instance is neither on demand nor not")
	}
}
