package effective

import "slices"

// sizing is what one layer says of how big a machine is.
type sizing struct {
	typed bool // it sets the instance type
	args  map[string]any
}

// outranked gives the names of size arguments that a layer sets which is below the
// one that sets the instance type: of two that set the same the higher counts. Layers
// are given the lowest first.
func outranked(sizeArgs []string, layers []sizing) []string {
	var set, below []string
	for _, layer := range layers {
		if layer.typed {
			below = slices.Clone(set)
		}
		for _, name := range sizeArgs {
			if _, sets := layer.args[name]; sets {
				set = append(set, name)
				below = slices.DeleteFunc(below, func(n string) bool { return n == name })
			}
		}
	}
	slices.Sort(below)
	return slices.Compact(below)
}

// sizings are what the layers of a group say of its size.
func (c *Config) sizings(l Layers) []sizing {
	t := c.Templates[l.Template]
	all := []sizing{{args: c.Defaults.Args}, {typed: len(t.InstanceType) > 0, args: t.Args}}
	typed := func(is bool) bool { return is && !l.TemplateTypes }
	if s := l.Static; s != nil {
		all = append(all, sizing{typed(len(s.InstanceType) > 0), s.Args})
	}
	if d := l.Entry; d != nil {
		own := sizing{typed: typed(len(d.Types()) > 0)}
		if l.Static == nil {
			own.args = d.Args
		}
		all = append(all, own)
	}
	if q := l.Request; q != nil {
		all = append(all, sizing{typed: typed(q.InstanceType != "")})
	}
	return all
}
