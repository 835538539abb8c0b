package importer

import (
	"fmt"
	"strings"
)

// staticSizes reports the sizes that were edited in the configuration of servers after their
// groups had become pools: from then on the pools say how large they are. The sizes that a
// pool began with are no edit.
func (in Input) staticSizes() []Step {
	var steps []Step
	for _, p := range in.Pools {
		var edited []string
		for _, s := range in.Shards {
			for _, g := range s.Groups {
				if g.Key == p.Group && p.lists(s.Name) && g.edited(p.begunWith(s.Name)) {
					edited = append(edited, fmt.Sprintf("%d on %s", *g.StaticSize, s.Name))
				}
			}
		}
		if len(edited) > 0 && !p.Deleting {
			steps = append(steps, ReportStaticSize{p.Name, fmt.Sprintf(
				"the configuration of the servers gives group %s the size %s; that is not followed, for the size is the MachinePool's", p.Group, strings.Join(edited, ", "))})
		}
	}
	return steps
}

// edited is whether the file gives the group another size than it has, and than it had when
// its pool began, if that is known.
func (g Group) edited(began int, known bool) bool {
	return g.StaticSize != nil && *g.StaticSize != g.Size && !(known && *g.StaticSize == began)
}

// begunWith is the size that the pool began with on a shard; false: it was not imported from
// there.
func (p Pool) begunWith(shard string) (int, bool) {
	sizes, err := ParseSizes(p.ImportedFrom)
	if err != nil {
		return 0, false
	}
	for _, s := range sizes {
		if s.Shard == shard {
			return s.Size, true
		}
	}
	return 0, false
}
