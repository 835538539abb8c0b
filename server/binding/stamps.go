package binding

import (
	"encoding/hex"

	"nstance.dev/server/demand"
	"nstance.dev/server/layout"
)

// The names of stamps.
const (
	stampNeed         = "need"
	stampGroup        = "group"
	stampPriority     = "priority"
	stampInterruption = "interruption"
	stampReclamation  = "reclamation"
	stampReplaces     = "replaces"
)

func stamps(s demand.Stamp) layout.Stamps {
	all := layout.Stamps{}.Set(stampPriority, s.Priority)
	if s.Need != (demand.Key{}) {
		all = all.Set(stampNeed, hex.EncodeToString(s.Need[:]))
	}
	if s.Group != "" {
		all = all.Set(stampGroup, s.Group)
	}
	if s.Interruption != 0 {
		all = all.Set(stampInterruption, s.Interruption)
	}
	if s.Reclamation != 0 {
		all = all.Set(stampReclamation, s.Reclamation)
	}
	return all
}

// StampOf is what the stamps of a binding say. A value that makes no sense is left out.
func StampOf(b *layout.Binding) (s demand.Stamp) {
	if b == nil {
		return s
	}
	var need string
	if b.Stamps.Get(stampNeed, &need) && hex.DecodedLen(len(need)) == len(s.Need) {
		if raw, err := hex.DecodeString(need); err == nil {
			copy(s.Need[:], raw)
		}
	}
	b.Stamps.Get(stampGroup, &s.Group)
	b.Stamps.Get(stampPriority, &s.Priority)
	s.Interruption, s.Reclamation = bucket(b, stampInterruption), bucket(b, stampReclamation)
	return s
}

func bucket(b *layout.Binding, name string) (v demand.Bucket) {
	if !b.Stamps.Get(name, &v) || v > demand.Pinned {
		return 0
	}
	return v
}

// Replace notes in the binding of an instance that it is made to replace others: their ids, with commas
// between them. Empty: it is not.
func Replace(b *layout.Binding, ids string) {
	if ids != "" {
		b.Stamps = b.Stamps.Set(stampReplaces, ids)
	}
}

// Replaces are the instances that one was made to replace, as [Replace] was told; empty: none.
func Replaces(b *layout.Binding) (ids string) {
	if b != nil {
		b.Stamps.Get(stampReplaces, &ids)
	}
	return ids
}
