package proxmox

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	pve "github.com/luthermonson/go-proxmox"

	"nstance.dev/providers/proxmox/rules"
	"nstance.dev/server/driver"
)

// advance goes through the stages, from that which was reached.
func (d *Driver) advance(ctx context.Context, j *job) error {
	for ; j.stage != stageDone; j.stage++ {
		if j.quitting() {
			return errQuit
		}
		d.reg.update(j, func(*progress) {})
		err := d.step(ctx, j)
		for range stageTries {
			if !changedMeanwhile(err) {
				break
			}
			err = d.step(ctx, j)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", j.stage, err)
		}
	}
	return nil
}

// stageTries is how often a stage begins anew because the machine is not as it was read.
const stageTries = 3

// changedMeanwhile reports whether err says that a machine's configuration has changed
// since it was read: by an earlier call of ours whose answer was lost, or by somebody.
func changedMeanwhile(err error) bool {
	var r *refusal
	return errors.As(err, &r) && changedWords.MatchString(r.reason)
}

// The words are those of PVE::Tools::assert_if_modified and of qemu-server.
var changedWords = regexp.MustCompile(`(?i)(file changed by other user|checksum mismatch)`)

// step does the work of one stage.
func (d *Driver) step(ctx context.Context, j *job) error {
	switch j.stage {
	case stagePlace:
		return d.place(ctx, j)
	case stageClone:
		return d.clone(ctx, j)
	}
	if j.upid == "" {
		upid, err := d.send(ctx, j, d.reg.progress(j).at)
		if err != nil {
			return err
		}
		j.upid = upid
	}
	err := d.await(ctx, j)
	if j.stage == stageStart && alreadyRuns(err) {
		return nil
	}
	return err
}

// send begins the task of a stage behind the clone; there may be nothing to do.
func (d *Driver) send(ctx context.Context, j *job, m at) (pve.UPID, error) {
	switch j.stage {
	case stageConfigure:
		return d.configure(ctx, j, m)
	case stageResize:
		if want := j.want.Size.Disk; want<<30 > j.machine.size && j.machine.disk != "" {
			return d.api.resize(ctx, m, j.machine.disk, want)
		}
		return "", nil
	case stageUpload:
		image, err := seedImage(j.request.InstanceID, j.request.UserData, j.want.Network)
		if err != nil {
			return "", be(driver.Transient, "%w", err)
		}
		return d.api.upload(ctx, m.node, d.opts.ISOStorage, isoName(j.request.InstanceID), image)
	case stageAttach:
		return d.api.configure(ctx, m, j.attachment(isoVolume(d.opts.ISOStorage, j.request.InstanceID)))
	case stageStart:
		return d.api.start(ctx, m)
	}
	return "", fmt.Errorf("stage %d has nothing to send", j.stage)
}

// await waits for the task of a stage, and forgets it when it has ended.
func (d *Driver) await(ctx context.Context, j *job) error {
	err := d.api.wait(ctx, j.upid, j.quit)
	if err == nil || taskFailed(err) {
		j.upid = ""
	}
	return err
}

// taskFailed reports whether err, of waiting for a task, is what became of it. A
// task that nobody knows any more has failed too.
func taskFailed(err error) bool {
	var r *refusal
	return errors.As(err, &r) && (r.status == 0 || r.kind() == driver.Invalid)
}

func alreadyRuns(err error) bool {
	var r *refusal
	return errors.As(err, &r) && strings.Contains(r.reason, "already running")
}

// configure makes the clone what it shall be. That it is ours, its name says.
func (d *Driver) configure(ctx context.Context, j *job, m at) (pve.UPID, error) {
	config, err := d.api.config(ctx, m)
	if err != nil {
		return "", err
	}
	if config.Name != string(j.request.InstanceID) {
		return "", be(driver.Transient, "machine %s is called %q now; it is left alone", m, config.Name)
	}
	j.machine = hardwareOf(config)
	if j.machine.disk == "" {
		return "", be(driver.Invalid, "template %s has no disk", j.template.at)
	}
	further, err := further(j.want, j.machine.drives, j.template.drives)
	if err != nil {
		return "", err
	}
	options := j.options(splitTags(config.Tags))
	for _, name := range sortedKeys(further) {
		options = append(options, pve.VirtualMachineOption{Name: name, Value: further[name]})
	}
	if len(further) > 0 { // a call that arrives twice must not make two disks
		options = append(options, pve.VirtualMachineOption{Name: "digest", Value: config.Digest})
	}
	return d.api.configure(ctx, m, options)
}

// options are those of the machine itself.
func (j *job) options(tags []string) []pve.VirtualMachineOption {
	onBoot := 0
	if j.want.OnBoot {
		onBoot = 1
	}
	options := []pve.VirtualMachineOption{
		{Name: "tags", Value: strings.Join(tagsOf(j.request.Owner, j.request.InstanceID, j.group(), tags), tagSep)},
		{Name: "onboot", Value: onBoot},
	}
	if n := j.want.Size.Cores; n != 0 {
		options = append(options, pve.VirtualMachineOption{Name: "cores", Value: n}, pve.VirtualMachineOption{Name: "sockets", Value: 1})
	}
	if n := j.want.Size.Memory; n != 0 {
		options = append(options, pve.VirtualMachineOption{Name: "memory", Value: n})
	}
	if n, changed := connect(j.want, j.machine.nic); changed {
		options = append(options, pve.VirtualMachineOption{Name: rules.FirstNIC, Value: n.String()})
	}
	return options
}

// attachment are the options that give the machine its CD, in place of one that the
// template has for cloud-init, and its disk to boot from.
func (j *job) attachment(volume string) []pve.VirtualMachineOption {
	options := []pve.VirtualMachineOption{
		{Name: rules.SeedDrive, Value: volume + ",media=cdrom"},
		{Name: "boot", Value: "order=" + j.machine.disk},
	}
	others := slices.DeleteFunc(slices.Clone(j.machine.seeds), func(option string) bool { return option == rules.SeedDrive })
	if len(others) > 0 {
		options = append(options, pve.VirtualMachineOption{Name: "delete", Value: strings.Join(others, ",")})
	}
	return options
}
