package requests

import (
	"fmt"
	"slices"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
)

// checkDemandShape looks at what a change says of mode demand by itself.
func checkDemandShape(change GroupChange) error {
	if m := change.Mode; m != "" && m != document.ModeFixed && m != document.ModeDemand {
		return &groupfile.InvalidError{Field: "mode", Msg: fmt.Sprintf("must be %s or %s", document.ModeFixed, document.ModeDemand)}
	}
	if change.Requirements != nil && (change.InstanceType != "" || len(change.InstanceTypes) > 0) {
		return &groupfile.InvalidError{Field: "instance_requirements", Msg: "the group has either instance types or requirements; leave one of them out"}
	}
	for _, block := range []struct {
		field    string
		problems []document.Problem
	}{
		{"demand", change.Demand.Problems()}, {"node", change.Node.Problems()},
		{"instance_requirements", change.Requirements.Problems("")},
	} {
		for _, p := range block.problems {
			return invalidBlock(block.field, p)
		}
	}
	return nil
}

func invalidBlock(field string, p document.Problem) error {
	for _, step := range p.At {
		if i, ok := step.(int); ok {
			field += fmt.Sprintf("[%d]", i)
		} else {
			field += fmt.Sprintf(".%v", step)
		}
	}
	return &groupfile.InvalidError{Field: field, Msg: p.Message + "; " + p.Remedy}
}

// checkDemandLocked refuses a change of what a static group keeps for its file.
func checkDemandLocked(static document.Group, change GroupChange) error {
	mode := document.ModeFixed
	if static.Demands() {
		mode = document.ModeDemand
	}
	switch {
	case change.Mode != "" && change.Mode != mode:
		return &LockedFieldError{Field: "mode"}
	case change.Demand != nil && !effective.Same(change.Demand.Complete(), static.Demand.Complete()):
		return &LockedFieldError{Field: "demand"}
	case change.Requirements != nil && !effective.Same(change.Requirements, static.InstanceRequirements):
		return &LockedFieldError{Field: "instance_requirements"}
	case change.Node != nil && !effective.Same(change.Node, static.Node):
		return &LockedFieldError{Field: "node"}
	}
	return nil
}

// applyDemand gives the entry of a dynamic group with what a change says of mode demand.
func (change GroupChange) applyDemand(entry groupfile.Entry) groupfile.Entry {
	switch change.Mode {
	case document.ModeDemand:
		entry.Mode, entry.Size = document.ModeDemand, change.Size
	case document.ModeFixed:
		if entry.Mode == document.ModeDemand {
			entry.Demand, entry.InstanceRequirements = nil, nil
		}
		entry.Mode = ""
	}
	if change.Demand != nil {
		entry.Demand = change.Demand
	}
	if change.Node != nil {
		entry.Node = change.Node
	}
	switch {
	case change.Requirements != nil:
		entry.InstanceRequirements, entry.InstanceType, entry.InstanceTypes = change.Requirements, "", nil
	case change.InstanceType != "" || len(change.InstanceTypes) > 0:
		entry.InstanceRequirements = nil
	}
	return entry
}

// checkDemand looks at the mode that a group has after a change, and at what of the layers does not
// go with it.
func checkDemand(cfg *effective.Config, l effective.Layers, change GroupChange, old groupfile.Entry) error {
	merged := cfg.Lay(l)
	if merged.Demand == nil {
		switch {
		case l.Entry.Demand != nil:
			return &groupfile.InvalidError{Field: "demand", Msg: "only groups of mode demand have it; set mode to demand, or leave it out"}
		case l.Entry.InstanceRequirements != nil:
			return &groupfile.InvalidError{Field: "instance_requirements", Msg: "only groups of mode demand have them; name instance types instead"}
		case l.Static == nil && old.Mode == document.ModeDemand && change.Size == nil:
			return &groupfile.InvalidError{Field: "size", Msg: "required, because a group of mode demand has none: say how many machines it keeps"}
		}
		return nil
	}
	if change.Size != nil {
		return &DemandGroupError{Group: l.Key}
	}
	if r := merged.Requirements; r != nil {
		for _, p := range r.Problems(merged.Arch) {
			return invalidBlock("instance_requirements", p)
		}
	}
	for _, p := range cfg.DemandProblems(merged) {
		return invalidBlock(p.At[0].(string), document.Problem{At: slices.Clone(p.At[1:]), Message: p.Message, Remedy: p.Remedy})
	}
	return nil
}
