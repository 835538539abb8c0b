package proxmox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	pve "github.com/luthermonson/go-proxmox"
)

// api is the cluster as the driver uses it: the calls that it makes, and no others.
// What a call's path and fields are called, this file alone knows.
type api struct {
	base   http.RoundTripper // answers with a *refusal where the API refuses
	url    string
	token  [2]string // id and secret
	client *pve.Client
}

func newAPI(o Options, base http.RoundTripper) *api {
	a := &api{base: spoken{base}, url: o.urls[0].String(), token: [2]string{o.TokenID, o.TokenSecret}}
	a.client = a.over(a.base)
	return a
}

func (a *api) over(t http.RoundTripper) *pve.Client {
	return pve.NewClient(a.url,
		pve.WithHTTPClient(&http.Client{Transport: t}),
		pve.WithAPIToken(a.token[0], a.token[1]),
		pve.WithUserAgent("nstance"),
		pve.WithLogger(silent{}))
}

// silent keeps the library from writing user data and tokens into a log.
type silent struct{}

func (silent) Debugf(string, ...any) {}
func (silent) Errorf(string, ...any) {}
func (silent) Infof(string, ...any)  {}
func (silent) Warnf(string, ...any)  {}

// resource is an entry of the cluster's list.
type resource struct {
	pve.ClusterResource
	Lock string `json:"lock"`
}

// at is where a machine is, for calls about it.
type at struct {
	node string
	vmid int
}

func (m at) String() string { return fmt.Sprintf("%d on %s", m.vmid, m.node) }

func (a *api) vm(m at) *pve.VirtualMachine {
	vm := new(pve.VirtualMachine)
	vm.New(a.client, m.node, m.vmid)
	return vm
}

// resources lists what the cluster has.
func (a *api) resources(ctx context.Context) (list []resource, err error) {
	err = again(ctx, func() error { return a.client.Get(ctx, "/cluster/resources", &list) })
	return list, plain(err)
}

// permissions lists the privileges that the token has, on whatever path.
func (a *api) permissions(ctx context.Context) ([]string, error) {
	byPath := map[string]map[string]any{}
	err := again(ctx, func() error { return a.client.Get(ctx, "/access/permissions", &byPath) })
	var granted []string
	for _, set := range byPath {
		granted = append(granted, slices.Collect(maps.Keys(set))...)
	}
	return granted, plain(err)
}

// config reads what a machine is made of.
func (a *api) config(ctx context.Context, m at) (*pve.VirtualMachineConfig, error) {
	config := new(pve.VirtualMachineConfig)
	err := again(ctx, func() error {
		return a.client.Get(ctx, fmt.Sprintf("/nodes/%s/qemu/%d/config", m.node, m.vmid), config)
	})
	return config, plain(err)
}

// current asks the node itself for a machine's state and what it is made of.
func (a *api) current(ctx context.Context, m at) (*pve.VirtualMachine, error) {
	vm := a.vm(m)
	err := again(ctx, func() error { return vm.Ping(ctx) })
	return vm, plain(err)
}

// finished is a task that has ended, as its node lists it.
type finished struct {
	Type   string `json:"type"`
	User   string `json:"user"`
	Status string `json:"status"` // the exit status
	Began  int64  `json:"starttime"`
}

// finishedTasks lists the last tasks about a machine that have ended, the latest first.
func (a *api) finishedTasks(ctx context.Context, m at) (list []finished, err error) {
	err = again(ctx, func() error {
		return a.client.GetWithParams(ctx, fmt.Sprintf("/nodes/%s/tasks", m.node), map[string]any{"vmid": m.vmid, "limit": lastTasks}, &list)
	})
	return list, plain(err)
}

// lastTasks is how many are listed: backups and changes of the configuration are among them.
const lastTasks = 20

// clone begins to copy a template.
func (a *api) clone(ctx context.Context, template at, o *pve.VirtualMachineCloneOptions) (pve.UPID, error) {
	_, task, err := a.vm(template).Clone(ctx, o)
	return upidOf(task), plain(err)
}

// configure changes options of a machine.
func (a *api) configure(ctx context.Context, m at, options []pve.VirtualMachineOption) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) { return a.vm(m).Config(ctx, options...) })
}

// resize lets a disk grow to a size in GiB.
func (a *api) resize(ctx context.Context, m at, disk string, to int64) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) { return a.vm(m).ResizeDisk(ctx, disk, fmt.Sprintf("%dG", to)) })
}

// start switches a machine on.
func (a *api) start(ctx context.Context, m at) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) { return a.vm(m).Start(ctx) })
}

// stop switches it off.
func (a *api) stop(ctx context.Context, m at) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) { return a.vm(m).Stop(ctx) })
}

// shutdown asks its system to end, and switches it off after grace.
func (a *api) shutdown(ctx context.Context, m at, grace time.Duration) (upid pve.UPID, err error) {
	params := map[string]any{"timeout": int(grace.Seconds()), "forceStop": 1}
	err = again(ctx, func() error {
		return a.client.Post(ctx, fmt.Sprintf("/nodes/%s/qemu/%d/status/shutdown", m.node, m.vmid), params, &upid)
	})
	return upid, plain(err)
}

// reset switches it off and on. It is not repeated, for each time counts.
func (a *api) reset(ctx context.Context, m at) (pve.UPID, error) {
	task, err := a.vm(m).Reset(ctx)
	return upidOf(task), plain(err)
}

// reboot asks its system to start anew. It is not repeated either.
func (a *api) reboot(ctx context.Context, m at) (pve.UPID, error) {
	task, err := a.vm(m).Reboot(ctx)
	return upidOf(task), plain(err)
}

// destroy removes a machine that does not run, with its disks, and what refers to it
// in jobs and rules.
func (a *api) destroy(ctx context.Context, m at) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) {
		return a.vm(m).Delete(ctx, &pve.VirtualMachineDeleteOptions{Purge: true})
	})
}

// upload puts an image into a storage, in place of one of that name.
func (a *api) upload(ctx context.Context, node, storage, name string, image []byte) (upid pve.UPID, err error) {
	client := a.over(bound{ctx, a.base})
	path := fmt.Sprintf("/nodes/%s/storage/%s/upload", node, storage)
	err = again(ctx, func() error {
		return client.UploadReader(path, map[string]string{"content": "iso"}, name, bytes.NewReader(image), int64(len(image)), &upid)
	})
	return upid, plain(err)
}

// removeVolume removes a file from a storage; it is no failure if it is not there.
func (a *api) removeVolume(ctx context.Context, node, volume string) (upid pve.UPID, err error) {
	storage, _, _ := strings.Cut(volume, ":")
	err = again(ctx, func() error {
		return a.client.Delete(ctx, fmt.Sprintf("/nodes/%s/storage/%s/content/%s", node, storage, volume), &upid)
	})
	return upid, plain(err)
}

// Pauses between two looks at a task.
const (
	firstLook   = 100 * time.Millisecond
	longestLook = time.Second
)

// wait waits for the end of a task: nil if it did its work, a *refusal with its words
// if it failed. It gives up when ctx ends, or quit is closed.
func (a *api) wait(ctx context.Context, upid pve.UPID, quit <-chan struct{}) error {
	if upid == "" {
		return nil // the work was done in the call
	}
	for pause := firstLook; ; pause = min(pause*3/2, longestLook) {
		task := pve.NewTask(upid, a.client)
		if err := again(ctx, func() error { return task.Ping(ctx) }); err != nil {
			return plain(err)
		}
		if task.Status != pve.TaskRunning {
			return a.outcome(ctx, task)
		}
		select {
		case <-time.After(pause):
		case <-quit:
			return errQuit
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errQuit says that nobody waits for a task any more.
var errQuit = errors.New("not waited for")

// outcome is what a task that has ended says. Some causes stand in its log only.
func (a *api) outcome(ctx context.Context, task *pve.Task) error {
	if task.ExitStatus == "OK" || strings.HasPrefix(task.ExitStatus, "WARNINGS") {
		return nil
	}
	r := &refusal{reason: task.ExitStatus}
	if log, err := task.Log(ctx, 0, logLines); err == nil {
		r.detail = lastWords(log, task.ExitStatus)
	}
	return r
}

const logLines = 50

// lastWords are the last lines of a task's log before the one that says its end.
func lastWords(log pve.Log, exit string) string {
	var kept []string
	for _, n := range slices.Sorted(maps.Keys(log)) {
		if line := strings.TrimSpace(log[n]); line != "" && line != "no content" && !strings.Contains(line, exit) {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-3):], "; ")
}

// repeat makes a call that may arrive twice.
func (a *api) repeat(ctx context.Context, call func() (*pve.Task, error)) (upid pve.UPID, err error) {
	err = again(ctx, func() error {
		task, err := call()
		upid = upidOf(task)
		return err
	})
	return upid, plain(err)
}

func upidOf(task *pve.Task) pve.UPID {
	if task == nil {
		return ""
	}
	return task.UPID
}

// tries is how often a call is made whose connection breaks.
const tries = 3

// again makes a call, and makes it again if its connection breaks. Refusals are for
// the server to deal with.
func again(ctx context.Context, call func() error) (err error) {
	for range tries {
		if err = call(); !broken(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// plain takes away what the HTTP client says around the API's own words.
func plain(err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return r
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
