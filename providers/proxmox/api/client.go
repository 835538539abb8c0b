// Package api calls the API of Proxmox VE.
//
// A [Client] has the calls that the driver makes, and no others. One that begins a task
// returns its id, for which [Client.Wait] waits. A call whose connection breaks is repeated
// where it may arrive twice; refusals are returned as they are. The cluster is reached by
// any of its nodes, see [endpoints]. Errors are of a [Refusal] or of the transport: what
// a caller can do about one says [KindOf], and its words are interpreted in this package
// alone.
//
// Methods are safe for concurrent use. The only mutex is that of the endpoints; it is held
// over no call.
package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	pve "github.com/luthermonson/go-proxmox"
)

// Client is the cluster as the driver uses it: the calls that it makes, and no others.
// What a call's path and fields are called, this file alone knows.
type Client struct {
	base   http.RoundTripper // answers with a *Refusal where the API refuses
	url    string
	token  [2]string // id and secret
	client *pve.Client
}

// Options are how the API is reached. URLs and the token are required.
type Options struct {
	URLs        []*url.URL // of nodes of one cluster, with the path of the API
	TokenID     string     // user@realm!name
	TokenSecret string

	InsecureTLS  bool     // take any certificate of the API
	CAFile       string   // PEM; the CA bundle of the system by default
	Fingerprints []string // SHA-256, of the certificates that the API may have; count before the two above

	Log       *slog.Logger      // hears of addresses that do not answer
	Transport http.RoundTripper // to the API; nil: by HTTPS
}

// New returns a client. It asks nothing: an error is about the options.
func New(o Options) (*Client, error) {
	base, err := transportOf(o)
	if err != nil {
		return nil, err
	}
	base = &endpoints{base: base, urls: o.URLs, log: o.Log}
	a := &Client{base: refusalTransport{base}, url: o.URLs[0].String(), token: [2]string{o.TokenID, o.TokenSecret}}
	a.client = a.over(a.base)
	return a, nil
}

func (a *Client) over(t http.RoundTripper) *pve.Client {
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

// Resource is an entry of the cluster's list, which is some ten seconds old: a node, a guest or a
// storage.
type Resource struct {
	pve.ClusterResource
	Lock string `json:"lock"`
}

// VM is where a machine is, for calls about it. The zero value is no machine.
type VM struct {
	Node   string // its name
	Number int    // of the machine: unique in the cluster, and given out again when it is gone
}

// String is for errors and logs.
func (m VM) String() string { return fmt.Sprintf("%d on %s", m.Number, m.Node) }

// ProviderID is the number as text, by which the server knows the machine besides its name.
func (m VM) ProviderID() string { return strconv.Itoa(m.Number) }

func (a *Client) vm(m VM) *pve.VirtualMachine {
	vm := new(pve.VirtualMachine)
	vm.New(a.client, m.Node, m.Number)
	return vm
}

// Resources lists what the cluster has.
func (a *Client) Resources(ctx context.Context) (list []Resource, err error) {
	err = repeatBroken(ctx, func() error { return a.client.Get(ctx, "/cluster/resources", &list) })
	return list, unwrapHTTP(err)
}

// Permissions lists the privileges that the token has, on whatever path.
func (a *Client) Permissions(ctx context.Context) ([]string, error) {
	byPath := map[string]map[string]any{}
	err := repeatBroken(ctx, func() error { return a.client.Get(ctx, "/access/permissions", &byPath) })
	var granted []string
	for _, set := range byPath {
		granted = append(granted, slices.Collect(maps.Keys(set))...)
	}
	return granted, unwrapHTTP(err)
}

// Config reads what a machine is made of.
func (a *Client) Config(ctx context.Context, m VM) (*pve.VirtualMachineConfig, error) {
	config := new(pve.VirtualMachineConfig)
	err := repeatBroken(ctx, func() error {
		return a.client.Get(ctx, fmt.Sprintf("/nodes/%s/qemu/%d/config", m.Node, m.Number), config)
	})
	return config, unwrapHTTP(err)
}

// Current asks the node itself for a machine's state and what it is made of.
func (a *Client) Current(ctx context.Context, m VM) (*pve.VirtualMachine, error) {
	vm := a.vm(m)
	err := repeatBroken(ctx, func() error { return vm.Ping(ctx) })
	return vm, unwrapHTTP(err)
}

// Clone begins to copy a template.
func (a *Client) Clone(ctx context.Context, template VM, o *pve.VirtualMachineCloneOptions) (pve.UPID, error) {
	_, task, err := a.vm(template).Clone(ctx, o)
	return upidOf(task), unwrapHTTP(err)
}

// Configure changes options of a machine.
func (a *Client) Configure(ctx context.Context, m VM, options []pve.VirtualMachineOption) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) { return a.vm(m).Config(ctx, options...) })
}

// Resize lets a disk grow to a size in GiB.
func (a *Client) Resize(ctx context.Context, m VM, disk string, to int64) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) { return a.vm(m).ResizeDisk(ctx, disk, fmt.Sprintf("%dG", to)) })
}

// Start switches a machine on.
func (a *Client) Start(ctx context.Context, m VM) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) { return a.vm(m).Start(ctx) })
}

// Stop switches it off.
func (a *Client) Stop(ctx context.Context, m VM) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) { return a.vm(m).Stop(ctx) })
}

// Shutdown asks its system to end, and switches it off after grace.
func (a *Client) Shutdown(ctx context.Context, m VM, grace time.Duration) (upid pve.UPID, err error) {
	params := map[string]any{"timeout": int(grace.Seconds()), "forceStop": 1}
	err = repeatBroken(ctx, func() error {
		return a.client.Post(ctx, fmt.Sprintf("/nodes/%s/qemu/%d/status/shutdown", m.Node, m.Number), params, &upid)
	})
	return upid, unwrapHTTP(err)
}

// Reset switches it off and on. It is not repeated, for each time counts.
func (a *Client) Reset(ctx context.Context, m VM) (pve.UPID, error) {
	task, err := a.vm(m).Reset(ctx)
	return upidOf(task), unwrapHTTP(err)
}

// Reboot asks its system to reboot. It is not repeated either.
func (a *Client) Reboot(ctx context.Context, m VM) (pve.UPID, error) {
	task, err := a.vm(m).Reboot(ctx)
	return upidOf(task), unwrapHTTP(err)
}

// Destroy removes a machine that does not run, with its disks, and what refers to it
// in jobs and rules.
func (a *Client) Destroy(ctx context.Context, m VM) (pve.UPID, error) {
	return a.repeat(ctx, func() (*pve.Task, error) {
		return a.vm(m).Delete(ctx, &pve.VirtualMachineDeleteOptions{Purge: true})
	})
}

// Upload puts an image into a storage, in place of one of that name.
func (a *Client) Upload(ctx context.Context, node, storage, name string, image []byte) (upid pve.UPID, err error) {
	client := a.over(contextTransport{ctx, a.base})
	path := fmt.Sprintf("/nodes/%s/storage/%s/upload", node, storage)
	err = repeatBroken(ctx, func() error {
		return client.UploadReader(path, map[string]string{"content": "iso"}, name, bytes.NewReader(image), int64(len(image)), &upid)
	})
	return upid, unwrapHTTP(err)
}

// RemoveVolume removes a file from a storage; it is no failure if it is not there.
func (a *Client) RemoveVolume(ctx context.Context, node, volume string) (upid pve.UPID, err error) {
	storage, _, _ := strings.Cut(volume, ":")
	err = repeatBroken(ctx, func() error {
		return a.client.Delete(ctx, fmt.Sprintf("/nodes/%s/storage/%s/content/%s", node, storage, volume), &upid)
	})
	return upid, unwrapHTTP(err)
}

// repeat makes a call that may arrive twice.
func (a *Client) repeat(ctx context.Context, call func() (*pve.Task, error)) (upid pve.UPID, err error) {
	err = repeatBroken(ctx, func() error {
		task, err := call()
		upid = upidOf(task)
		return err
	})
	return upid, unwrapHTTP(err)
}

func upidOf(task *pve.Task) pve.UPID {
	if task == nil {
		return ""
	}
	return task.UPID
}
