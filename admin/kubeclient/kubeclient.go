// Package kubeclient connects to the API server of a Kubernetes cluster as kubectl does: with
// the kubeconfig files that a flag or KUBECONFIG names, the one in the home folder, or, in a
// Pod, the account of the Pod.
//
// A [Client] reads objects of hosts.nstance.dev and Nodes, follows their changes, and makes and deletes them. [Hint] says what may
// help against an error. What is printed of objects is the subject of package hostview.
package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// Settings say which cluster, and as whom.
type Settings struct {
	// Kubeconfig is a file; empty: the files of Environment, else the one in the home folder.
	Kubeconfig string
	// Environment is the value of KUBECONFIG: files, separated as in PATH.
	Environment string
	// Context of the kubeconfig; empty: its current one.
	Context string
	// Timeout of a request; zero: none. A watch has none.
	Timeout time.Duration
}

// Client reads and writes objects of hosts.nstance.dev, and reads Nodes. New makes one; it is safe for concurrent use.
type Client struct {
	api     client.WithWatch
	server  string
	ca      []byte
	timeout time.Duration
}

// New returns a client. It asks the API server nothing yet.
func New(s Settings) (*Client, error) {
	config, err := load(s)
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NoWarnings{} // what the API server warns of concerns writers
	scheme := runtime.NewScheme()
	if err := errors.Join(hostsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("kinds of %s: %w", hostsv1.GroupVersion.Group, err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	for _, kind := range []string{hostsv1.KindHostMachine, hostsv1.KindMachineConfiguration, hostsv1.KindMachineConfigurationVersion, hostsv1.KindMachineOperation} {
		mapper.Add(hostsv1.GroupVersion.WithKind(kind), meta.RESTScopeRoot) // no discovery is needed
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			return nil, &ConfigError{err}
		}
	}
	return &Client{api: api, server: config.Host, ca: ca, timeout: s.Timeout}, nil
}

// Server is the address of the API server, and the certificates that it is trusted by, PEM; empty: those of the
// system.
func (c *Client) Server() (address string, ca []byte) { return c.server, c.ca }

// load reads the kubeconfig.
func load(s Settings) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.Precedence = append(filepath.SplitList(s.Environment), clientcmd.RecommendedHomeFile)
	if s.Environment != "" {
		rules.Precedence = filepath.SplitList(s.Environment)
	}
	rules.ExplicitPath = s.Kubeconfig
	rules.Warner = func(error) {} // a file that is missing is told of where all are
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: s.Context}).ClientConfig()
	if err != nil {
		return nil, &ConfigError{err}
	}
	return config, nil
}

// ConfigError is about the kubeconfig: no request was made.
type ConfigError struct{ err error }

func (e *ConfigError) Error() string { return "kubeconfig: " + e.err.Error() }
func (e *ConfigError) Unwrap() error { return e.err }

// Get reads one object into the given one, whose kind it must be.
func (c *Client) Get(ctx context.Context, name string, into client.Object) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.wrap(c.api.Get(ctx, client.ObjectKey{Name: name}, into))
}

// List reads all objects of a kind that match.
func (c *Client) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.wrap(c.api.List(ctx, into, opts...))
}

// Create makes an object, which is then as it is stored.
func (c *Client) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.wrap(c.api.Create(ctx, o, append(opts, client.FieldOwner("nstance-admin"))...))
}

// DeleteUnchanged deletes an object, and what it owns with it, unless it has changed since it was read: that is a
// conflict.
func (c *Client) DeleteUnchanged(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	ctx, cancel := c.limited(ctx)
	defer cancel()
	uid, version := o.GetUID(), o.GetResourceVersion()
	opts = append(opts, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	return c.wrap(c.api.Delete(ctx, o, opts...))
}

func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.timeout == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, c.timeout, fmt.Errorf("no answer in %v", c.timeout))
}

// Error is a failed request, with what may help against it.
type Error struct {
	Server string
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("kubernetes %s: %v", e.Server, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

func (c *Client) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Server: c.server, Err: err}
}

// Hint returns what may help against an error of this package; empty: the error is none, or says
// all there is to say.
func Hint(err error) string {
	if _, ok := errors.AsType[*ConfigError](err); ok {
		return "name the cluster with --kubeconfig, KUBECONFIG or --context, as for kubectl"
	}
	if _, ok := errors.AsType[*Error](err); !ok {
		return ""
	}
	_, unreachable := errors.AsType[*url.Error](err)
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && unknownPath(err):
		return "the cluster has no host machines: install the operator's chart with hosts.enabled, or name another cluster with --context"
	case apierrors.IsNotFound(err):
		return "see what there is with 'nstance-admin machine list', 'nstance-admin mcfg list' or 'nstance-admin operation list'"
	case apierrors.IsConflict(err):
		return "it has changed meanwhile: look at it again, and repeat the command"
	case apierrors.IsForbidden(err):
		return "bind the chart's role hosts-view, or hosts-edit where something is asked for, or one of view, edit and admin, to the user of the kubeconfig"
	case apierrors.IsUnauthorized(err):
		return "the API server does not know the user of the kubeconfig: log in again, or name another context with --context"
	case unreachable || errors.Is(err, context.DeadlineExceeded):
		return "check that the API server runs and that its address in the kubeconfig can be reached from here"
	}
	return ""
}

// unknownPath is whether the server knows no such kind, rather than no such object.
func unknownPath(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && (status.ErrStatus.Details == nil || status.ErrStatus.Details.Name == "")
}
