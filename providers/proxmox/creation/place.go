package creation

import (
	"context"
	"maps"
	"slices"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/cluster"
	"nstance.dev/providers/proxmox/placement"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/providers/proxmox/template"
	"nstance.dev/server/driver"
)

// place chooses where the machine will be, and its number.
func (cr *Creator) place(ctx context.Context, j *job) error {
	list, err := cr.api.Resources(ctx)
	if err != nil {
		return err
	}
	c := cluster.Of(list)
	if err := c.HasAny(j.want.Nodes); err != nil {
		return err
	}
	from, first, err := cr.templates(ctx, c, j.want)
	if err != nil {
		return err
	}
	s := placement.Search{Nodes: c.Nodes, From: from, Need: first.Needs(j.want), Only: j.want.Nodes, Spread: j.want.Spread}
	shown := map[int]bool{}
	if cr.opts.CommittedMemory {
		s.Nodes, shown = placement.Committed(c.Nodes), c.Running()
	}
	chosen, ok := cr.reg.reserve(j, s.Need, shown, func(k claims) (string, bool) {
		s.Taken, s.Group = k.taken, c.GroupBy(j.request.Owner, j.group(), k.group)
		return s.Choose(append(k.failed, j.avoid...), j.avoid)
	})
	if !ok {
		return s.NoRoom(c.Blind, j.avoid)
	}
	cr.opts.Log.Info("placing a machine", "instance", j.request.InstanceID, "node", chosen, "of_its_group_there", s.Group[chosen], "memory_mib", s.Need.Memory>>20)
	j.from.template = first
	if t := from[chosen]; t != first.VM {
		config, err := cr.api.Config(ctx, t)
		if err != nil {
			return err
		}
		j.from.template = template.Of(t, config)
	}
	j.from.shared, j.from.full = c.Shares(j.want.Storage), !c.Linked(j.from.template.Storages, j.want.Storage)
	number, err := cr.numbers.take(cluster.UsedNumbers(list))
	cr.reg.update(j, func(p *progress) { p.at.Number = number })
	return err
}

// templates says what a machine can be cloned from on each node. first is one of the
// templates; they count as equal but for where they are.
func (cr *Creator) templates(ctx context.Context, c cluster.State, want rules.Settings) (from map[string]api.VM, first template.Template, err error) {
	own, err := template.Find(c, want)
	if err != nil {
		return nil, first, err
	}
	t := own[slices.Sorted(maps.Keys(own))[0]]
	config, err := cr.api.Config(ctx, t)
	if err != nil {
		return nil, first, err
	}
	first = template.Of(t, config)
	from = template.Sources(c, own, first, want, cr.opts.ISOStorage)
	if len(from) == 0 {
		return nil, first, api.Errorf(driver.MissingRef,
			"no node that is online has the template, the storage %q for its disks and the storage %q for its CD", want.Storage, cr.opts.ISOStorage)
	}
	return from, first, nil
}
