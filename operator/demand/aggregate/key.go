package aggregate

import (
	"encoding/binary"

	demandv1 "nstance.dev/operator/api/demand/v1alpha1"
	"nstance.dev/protos/needs"
)

// Key names the row that a request is part of, but for the number of a stuck row.
type Key struct {
	Fingerprint string
	Group       string // empty for most
	UnitClass   string // empty in groups
}

// Text returns the key as one text, another one for each key.
func (k Key) Text() string { return k.Fingerprint + "\x00" + k.Group + "\x00" + k.UnitClass }

// Raw returns all that counts of a request, as bytes that are good until the next call: requests
// with equal ones are alike in everything. The error is that of [Aggregator.Set].
func (a *Aggregator) Raw(spec *demandv1.CapacityRequestSpec) ([]byte, error) {
	a.raw = appendRaw(a.raw[:0], spec)
	var err error
	if a.amount, err = vector(a.amount[:0], spec.Resources.Requests); err != nil {
		return nil, err
	}
	for _, amount := range a.amount {
		a.raw = binary.AppendVarint(appendText(a.raw, amount.Name), amount.Amount)
	}
	return a.raw, nil
}

// Key returns the row that a request would be part of, without adding it. The error is that of
// [Aggregator.Set].
func (a *Aggregator) Key(spec *demandv1.CapacityRequestSpec) (Key, error) {
	var err error
	if a.amount, err = vector(a.amount[:0], spec.Resources.Requests); err != nil {
		return Key{}, err
	}
	s, err := shapeOf(spec, nil)
	if err != nil {
		return Key{}, err
	}
	k := Key{Fingerprint: s.fingerprint, Group: s.group}
	if a.options.UnitClasses == Pow2 && k.Group == "" {
		k.UnitClass = needs.UnitClass(a.amount)
	}
	return k, nil
}
