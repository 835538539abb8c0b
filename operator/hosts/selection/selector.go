package selection

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Selector is a selector that was read. The zero one selects nothing.
type Selector struct {
	some   bool
	labels labels.Selector
	fields []hostsv1.FieldExpression
}

// Parse reads a selector. An absent one selects nothing, an empty one everything.
func Parse(s *hostsv1.MachineSelector) (Selector, error) {
	if s == nil {
		return Selector{}, nil
	}
	all := labels.NewSelector()
	add := func(key string, operator selection.Operator, values []string) error {
		requirement, err := labels.NewRequirement(key, operator, values)
		if err != nil {
			return err
		}
		all = all.Add(*requirement)
		return nil
	}
	for key, value := range s.MatchLabels {
		if err := add(key, selection.Equals, []string{string(value)}); err != nil {
			return Selector{}, fmt.Errorf("matchLabels: %w", err)
		}
	}
	for i, e := range s.MatchExpressions {
		operator, known := operators[e.Operator]
		if !known {
			return Selector{}, fmt.Errorf("matchExpressions[%d]: unknown operator %q", i, e.Operator)
		}
		if err := add(e.Key, operator, e.Values); err != nil {
			return Selector{}, fmt.Errorf("matchExpressions[%d]: %w", i, err)
		}
	}
	for i, e := range s.MatchFields {
		if _, known := field(&hostsv1.HostMachine{}, e.Key); !known {
			return Selector{}, fmt.Errorf("matchFields[%d]: unknown field %q", i, e.Key)
		}
		if e.Operator != hostsv1.FieldIn && e.Operator != hostsv1.FieldNotIn {
			return Selector{}, fmt.Errorf("matchFields[%d]: unknown operator %q", i, e.Operator)
		}
		if len(e.Values) == 0 {
			return Selector{}, fmt.Errorf("matchFields[%d]: no values", i)
		}
	}
	return Selector{some: true, labels: all, fields: s.MatchFields}, nil
}

var operators = map[hostsv1.SelectorOperator]selection.Operator{
	hostsv1.SelectorIn: selection.In, hostsv1.SelectorNotIn: selection.NotIn,
	hostsv1.SelectorExists: selection.Exists, hostsv1.SelectorDoesNotExist: selection.DoesNotExist,
}

// Matches says whether the selector selects a machine.
func (s Selector) Matches(m *hostsv1.HostMachine) bool {
	if !s.some || !s.labels.Matches(labels.Set(m.Labels)) {
		return false
	}
	for _, e := range s.fields {
		value, _ := field(m, e.Key)
		if slices.Contains(e.Values, value) != (e.Operator == hostsv1.FieldIn) {
			return false
		}
	}
	return true
}

// field returns a field of a machine; one that is not set is empty.
func field(m *hostsv1.HostMachine, key hostsv1.MachineField) (value string, known bool) {
	var of hostsv1.InstanceReference
	if m.Spec.Instance != nil {
		of = *m.Spec.Instance
	}
	switch key {
	case hostsv1.FieldName:
		return m.Name, true
	case hostsv1.FieldProvisioner:
		return m.Spec.Provisioner, true
	case hostsv1.FieldProviderID:
		return m.Spec.ProviderID, true
	case hostsv1.FieldShard:
		return string(of.Shard), true
	case hostsv1.FieldTenant:
		return string(of.Tenant), true
	case hostsv1.FieldGroup:
		return string(of.Group), true
	case hostsv1.FieldOnDemand:
		if m.Spec.Instance == nil {
			return "", true
		}
		return strconv.FormatBool(of.OnDemand), true
	}
	return "", false
}
