package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/admin/hostview"
	"nstance.dev/admin/kubeclient"
	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// kubeFlags say which Kubernetes cluster, and as whom.
type kubeFlags struct {
	kubeconfig, context string
	timeout             time.Duration
}

// addKubeFlags gives a command and all below it the flags of a Kubernetes cluster.
func addKubeFlags(cmd *cobra.Command) *kubeFlags {
	k := &kubeFlags{}
	k.add(cmd)
	return k
}

// add gives a command and all below it these flags.
func (k *kubeFlags) add(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&k.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of the cluster (KUBECONFIG)")
	f.StringVar(&k.context, "context", "", "`CONTEXT` of the kubeconfig (default: its current one)")
	f.DurationVar(&k.timeout, "timeout", 30*time.Second, "how long to wait for an answer")
}

func (k *kubeFlags) client(env *Env) (*kubeclient.Client, error) {
	if k.timeout <= 0 {
		return nil, usagef("--timeout %v must be above 0", k.timeout)
	}
	return kubeclient.New(kubeclient.Settings{Kubeconfig: k.kubeconfig, Environment: env.Getenv("KUBECONFIG"), Context: k.context, Timeout: k.timeout})
}

// objects reads all host machines with the configurations and versions.
func objects(ctx context.Context, env *Env, api *kubeclient.Client) (hostview.Objects, error) {
	var machines hostsv1.HostMachineList
	var configurations hostsv1.MachineConfigurationList
	var versions hostsv1.MachineConfigurationVersionList
	for _, list := range []client.ObjectList{&machines, &configurations, &versions} {
		if err := api.List(ctx, list); err != nil {
			return hostview.Objects{}, err
		}
	}
	return hostview.Objects{Machines: machines.Items, Configurations: configurations.Items, Versions: versions.Items, Now: env.Now()}, nil
}

// plain is an object as kubectl prints it: with its kind, and without who wrote which field.
func plain[T client.Object](o T, kind string) T {
	o.GetObjectKind().SetGroupVersionKind(hostsv1.GroupVersion.WithKind(kind))
	o.SetManagedFields(nil)
	return o
}

// printObjects prints a list.
func printObjects[T client.Object](env *Env, format output.Format, kind string, view output.View[T], all []T) error {
	items := make([]output.Item[T], 0, len(all))
	for _, o := range all {
		items = append(items, output.Item[T]{Message: plain(o, kind)})
	}
	return output.List(env.Out, format, view, items)
}

// printDescription prints an object: described for readers, whole for programs.
func printDescription[T client.Object](env *Env, format output.Format, kind string, view output.View[T], o T, describe func() ([]hostview.Line, error)) error {
	if format.Shape() != output.Table && format.Shape() != output.Wide {
		return output.Object(env.Out, format, view, output.Item[T]{Message: plain(o, kind)})
	}
	lines, err := describe()
	if err != nil {
		return err
	}
	return printLines(env, lines)
}

func printLines(env *Env, lines []hostview.Line) error {
	t := newTree(env.Out, env.Now())
	for _, l := range lines {
		t.line(l.Depth, "%s", l.Text)
	}
	return t.err
}

// change is a line of a watch: an event of the watch API.
type change[T client.Object] struct {
	Type   watch.EventType `json:"type"`
	Object T               `json:"object"`
}

// watchObjects prints all objects of a kind that are asked for, and then each one when it changes,
// until ctx ends, which is no error.
func watchObjects[T client.Object](ctx context.Context, env *Env, api *kubeclient.Client, format output.Format, kind string, view output.View[T], list func() client.ObjectList, opts ...client.ListOption) error {
	columns := []output.Column[change[T]]{{Header: "EVENT", Value: func(c change[T]) string { return string(c.Type) }}}
	for _, c := range view.Columns {
		columns = append(columns, output.Column[change[T]]{Header: c.Header, Wide: c.Wide, Value: func(e change[T]) string { return c.Value(e.Object) }})
	}
	stream := output.NewStream(env.Out, format, output.View[change[T]]{Name: func(c change[T]) string { return view.Name(c.Object) }, Columns: columns})
	err := api.Follow(ctx, list, func(c kubeclient.Change) error {
		o, ok := c.Object.(T)
		if !ok {
			return fmt.Errorf("the watch of %s has sent a %T", kind, c.Object)
		}
		return stream.Print(output.Item[change[T]]{Message: change[T]{c.Type, plain(o, kind)}})
	}, func(err error) {
		fmt.Fprintf(env.Err, "the watch has ended (%s), opening it again\n", text(err))
	}, opts...)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // an interrupt ends a watch as it should
	}
	return err
}

// parseLabels reads a selector of labels.
func parseLabels(text string) (client.MatchingLabelsSelector, error) {
	selector, err := labels.Parse(text)
	if err != nil {
		return client.MatchingLabelsSelector{}, usagef("--selector: %w", err)
	}
	return client.MatchingLabelsSelector{Selector: selector}, nil
}

// named selects one object of a kind.
func named(name string) client.ListOption { return client.MatchingFields{"metadata.name": name} }

// addWatchFlag gives a command the flag to go on.
func addWatchFlag(cmd *cobra.Command, watch *bool) {
	cmd.Flags().BoolVarP(watch, "watch", "w", false, "go on with every change, until interrupted")
}

// completeObjects offers the names of objects for the first argument.
func completeObjects(env *Env, flags *kubeFlags, names func(context.Context, *kubeclient.Client) ([]string, error)) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		short := *flags
		short.timeout = completionTimeout
		api, err := short.client(env)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		all, err := names(cmd.Context(), api)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		slices.Sort(all)
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

func configurationNames(ctx context.Context, api *kubeclient.Client) ([]string, error) {
	var all hostsv1.MachineConfigurationList
	err := api.List(ctx, &all)
	var names []string
	for _, c := range all.Items {
		names = append(names, c.Name)
	}
	return names, err
}

func machineNames(ctx context.Context, api *kubeclient.Client) ([]string, error) {
	var all hostsv1.HostMachineList
	err := api.List(ctx, &all)
	var names []string
	for _, m := range all.Items {
		names = append(names, cobra.CompletionWithDesc(m.Name, string(m.Status.Phase)))
	}
	return names, err
}
