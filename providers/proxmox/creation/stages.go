package creation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/api"
	"nstance.dev/providers/proxmox/metadata"
	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/providers/proxmox/seed"
	"nstance.dev/providers/proxmox/template"
	"nstance.dev/server/driver"
)

// advance goes through the stages, from that which was reached.
func (cr *Creator) advance(ctx context.Context, j *job) error {
	for ; j.stage != stageDone; j.stage++ {
		if j.stopped() {
			return api.ErrQuit
		}
		cr.reg.update(j, func(*progress) {})
		err := cr.step(ctx, j)
		for range stageTries {
			if !api.ChangedMeanwhile(err) {
				break
			}
			err = cr.step(ctx, j)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", j.stage, err)
		}
	}
	return nil
}

// stageTries is how often a stage is repeated because the machine is not as it was read.
const stageTries = 3

// step does the work of one stage.
func (cr *Creator) step(ctx context.Context, j *job) error {
	switch j.stage {
	case stagePlace:
		return cr.place(ctx, j)
	case stageClone:
		return cr.clone(ctx, j)
	}
	if j.upid == "" {
		upid, err := cr.send(ctx, j, cr.reg.progress(j).at)
		if err != nil {
			return err
		}
		j.upid = upid
	}
	err := cr.await(ctx, j)
	if j.stage == stageStart && api.AlreadyRuns(err) {
		return nil
	}
	return err
}

// send begins the task of a stage behind the clone; there may be nothing to do.
func (cr *Creator) send(ctx context.Context, j *job, m api.VM) (pve.UPID, error) {
	switch j.stage {
	case stageConfigure:
		return cr.configure(ctx, j, m)
	case stageResize:
		if want := j.want.Size.Disk; want<<30 > j.machine.Size && j.machine.Disk != "" {
			return cr.api.Resize(ctx, m, j.machine.Disk, want)
		}
		return "", nil
	case stageUpload:
		image, err := seed.Image(j.request.InstanceID, j.request.UserData, j.want.Network)
		if err != nil {
			return "", api.Errorf(driver.Transient, "%w", err)
		}
		return cr.api.Upload(ctx, m.Node, cr.opts.ISOStorage, seed.FileName(j.request.InstanceID), image)
	case stageAttach:
		return cr.api.Configure(ctx, m, j.attachment(seed.Volume(cr.opts.ISOStorage, j.request.InstanceID)))
	case stageStart:
		return cr.api.Start(ctx, m)
	}
	return "", fmt.Errorf("stage %d has nothing to send", j.stage)
}

// await waits for the task of a stage, and forgets it when it has ended.
func (cr *Creator) await(ctx context.Context, j *job) error {
	err := cr.api.Wait(ctx, j.upid, j.quit)
	if err == nil || api.TaskFailed(err) {
		j.upid = ""
	}
	return err
}

// configure makes the clone what it shall be. That it is ours, its name says.
func (cr *Creator) configure(ctx context.Context, j *job, m api.VM) (pve.UPID, error) {
	config, err := cr.api.Config(ctx, m)
	if err != nil {
		return "", err
	}
	if config.Name != string(j.request.InstanceID) {
		return "", api.Errorf(driver.Transient, "machine %s is now named %q; it is not changed", m, config.Name)
	}
	j.machine = template.HardwareOf(config)
	if j.machine.Disk == "" {
		return "", api.Errorf(driver.Invalid, "template %s has no disk", j.from.template.VM)
	}
	further, err := further(j.want, j.machine.Drives, j.from.template.Drives)
	if err != nil {
		return "", err
	}
	options := j.options(metadata.SplitTags(config.Tags))
	for _, name := range slices.Sorted(maps.Keys(further)) {
		options = append(options, pve.VirtualMachineOption{Name: name, Value: further[name]})
	}
	if len(further) > 0 { // a call that arrives twice must not make two disks
		options = append(options, pve.VirtualMachineOption{Name: "digest", Value: config.Digest})
	}
	return cr.api.Configure(ctx, m, options)
}

// options are those of the machine itself.
func (j *job) options(tags []string) []pve.VirtualMachineOption {
	onBoot := 0
	if j.want.OnBoot {
		onBoot = 1
	}
	options := []pve.VirtualMachineOption{
		{Name: "tags", Value: strings.Join(metadata.Tags(j.request.Owner, j.request.InstanceID, j.group(), tags), metadata.TagSep)},
		{Name: "onboot", Value: onBoot},
	}
	if n := j.want.Size.Cores; n != 0 {
		options = append(options, pve.VirtualMachineOption{Name: "cores", Value: n}, pve.VirtualMachineOption{Name: "sockets", Value: 1})
	}
	if n := j.want.Size.Memory; n != 0 {
		options = append(options, pve.VirtualMachineOption{Name: "memory", Value: n})
	}
	if n, changed := connect(j.want, j.machine.NIC); changed {
		options = append(options, pve.VirtualMachineOption{Name: rules.FirstNIC, Value: n.String()})
	}
	return options
}

// attachment are the options that give the machine its CD, in place of one that the
// template has for cloud-init, and its disk to boot from.
func (j *job) attachment(volume string) []pve.VirtualMachineOption {
	options := []pve.VirtualMachineOption{
		{Name: rules.SeedDrive, Value: volume + ",media=cdrom"},
		{Name: "boot", Value: "order=" + j.machine.Disk},
	}
	others := slices.DeleteFunc(slices.Clone(j.machine.Seeds), func(option string) bool { return option == rules.SeedDrive })
	if len(others) > 0 {
		options = append(options, pve.VirtualMachineOption{Name: "delete", Value: strings.Join(others, ",")})
	}
	return options
}
