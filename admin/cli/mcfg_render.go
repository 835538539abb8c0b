package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"nstance.dev/admin/kubeclient"
	"nstance.dev/admin/machinefiles"
	"nstance.dev/admin/output"
	"nstance.dev/agent/paver/render"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// renderFlags say what a machine's files follow from beside the version.
type renderFlags struct {
	machine, apiServer, ca, node, host string
}

func (f *renderFlags) add(cmd *cobra.Command, machine string) {
	cmd.Flags().StringVar(&f.machine, "machine", "", machine)
	cmd.Flags().StringVar(&f.apiServer, "api-server", "", "address of the API server that kubelets join, as the operator is told it (default: that of the kubeconfig)")
	cmd.Flags().StringVar(&f.ca, "api-server-ca", "", "file with the certificates that the API server is trusted by (default: those of the kubeconfig)")
	cmd.Flags().StringVar(&f.node, "node", "", "file with the block node of the instance's group, as JSON (default: the labels that the HostMachine has of it)")
	cmd.Flags().StringVar(&f.host, "host-facts", "", "file with what the host knows, as nstance-paver facts prints it (default: placeholders)")
}

func newMcfgRenderCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var of renderFlags
	var file string
	var assignment bool
	cmd := &cobra.Command{
		Use:   "render CONFIGURATION [VERSION]",
		Short: "Print every file that the host of a machine would write for a version",
		Long: `Print every file that the host of a machine would write for a version of a configuration:
those of the node machine, and those of the host beneath it. Without VERSION it is the
newest one. Nothing is written or locked, and no host is asked.

It is what the host writes, byte by byte, where it knows as much: --host-facts takes what
nstance-paver facts prints on the host, of what --assignment prints here, and without
that the name servers are a placeholder and every bind is written. Taints, reserved resources and the number of Pods
that the group of the instance sets are in --node. Secrets are placeholders that say
where they come from.`,
		Example: `  nstance-admin mcfg render gpu --machine knd068a3cp3thz5z2mv1gejwfta01
  nstance-admin mcfg render gpu 4 --machine knd068a3cp3thz5z2mv1gejwfta01 -o name
  nstance-admin mcfg render gpu --machine knd068a3cp3thz5z2mv1gejwfta01 --file slot:/etc/kubernetes/kubelet.yaml`,
		Args:              usedArgs,
		ValidArgsFunction: completeObjects(env, flags, configurationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			if of.machine == "" {
				return usagef("--machine is required: which files there are follows from the machine")
			}
			number := int32(0)
			if len(args) > 1 {
				n, err := versionNumber(args[0], args[1])
				if err != nil {
					return err
				}
				number = n
			}
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			r, err := newRendering(cmd.Context(), api, of)
			if err != nil {
				return err
			}
			if assignment {
				return r.printAssignment(cmd.Context(), env, args[0], number)
			}
			plan, err := r.plan(cmd.Context(), args[0], number)
			if err != nil {
				return err
			}
			return printPlan(env, format, plan, file)
		},
	}
	of.add(cmd, "HostMachine whose host it is (required)")
	cmd.Flags().StringVar(&file, "file", "", "print the content of this file alone, such as slot:/etc/hostname or host:/etc/systemd/nspawn/node-a.nspawn")
	cmd.Flags().BoolVar(&assignment, "assignment", false, "print what the host would be told instead, as JSON that nstance-paver facts -f reads")
	addOutputFlag(cmd, &format)
	return cmd
}

// rendering renders versions for one machine.
type rendering struct {
	api     *kubeclient.Client
	machine *hostsv1.HostMachine
	around  machinefiles.Surroundings
}

func newRendering(ctx context.Context, api *kubeclient.Client, f renderFlags) (*rendering, error) {
	r := &rendering{api: api, machine: &hostsv1.HostMachine{}}
	if err := api.Get(ctx, f.machine, r.machine); err != nil {
		return nil, err
	}
	server := &r.around.APIServer
	server.URL, server.CA = api.Server()
	if f.apiServer != "" {
		server.URL = f.apiServer
	}
	if f.ca != "" {
		text, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, usagef("--api-server-ca: %v", err)
		}
		server.CA = text
	}
	if f.node != "" {
		text, err := os.ReadFile(f.node)
		if err != nil {
			return nil, usagef("--node: %v", err)
		}
		r.around.Node = &nstancev1.NodeSettings{}
		if err := protojson.Unmarshal(text, r.around.Node); err != nil {
			return nil, usagef("--node: %s: %v", f.node, err)
		}
	}
	if f.host != "" {
		text, err := os.ReadFile(f.host)
		if err != nil {
			return nil, usagef("--host-facts: %v", err)
		}
		if err := json.Unmarshal(text, &r.around.Host); err != nil {
			return nil, usagef("--host-facts: %s: %v", f.host, err)
		}
	}
	return r, nil
}

// version reads a version; 0: the newest one.
func (r *rendering) version(ctx context.Context, configuration string, number int32) (*hostsv1.MachineConfigurationVersion, error) {
	c := &hostsv1.MachineConfiguration{}
	if err := r.api.Get(ctx, configuration, c); err != nil {
		return nil, err
	}
	if number == 0 {
		if number = c.Status.LatestVersion; number == 0 {
			return nil, fmt.Errorf("configuration %s has no version yet: the operator makes it", configuration)
		}
	}
	v := &hostsv1.MachineConfigurationVersion{}
	if err := r.api.Get(ctx, versions.Name(configuration, number), v); err != nil {
		return nil, fmt.Errorf("version %d of %s: %w", number, configuration, err)
	}
	return v, nil
}

// plan is what the host would write for a version; 0: the newest one.
func (r *rendering) plan(ctx context.Context, configuration string, number int32) (render.Plan, error) {
	v, err := r.version(ctx, configuration, number)
	if err != nil {
		return render.Plan{}, err
	}
	return machinefiles.Plan(r.machine, v, r.around)
}

// printAssignment prints what the host would be told for a version.
func (r *rendering) printAssignment(ctx context.Context, env *Env, configuration string, number int32) error {
	v, err := r.version(ctx, configuration, number)
	if err != nil {
		return err
	}
	a, err := machinefiles.Assignment(r.machine, v, r.around)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.Out, protojson.Format(a))
	return err
}

// printedFile is a file as JSON has it.
type printedFile struct {
	Place   string `json:"place"`
	Path    string `json:"path"`
	Mode    string `json:"mode,omitempty"`
	Link    string `json:"link,omitempty"`
	Secret  bool   `json:"secret,omitempty"`
	Content string `json:"content,omitempty"`
}

// printedPlan is a plan as JSON has it.
type printedPlan struct {
	Files   []printedFile     `json:"files"`
	Modules []string          `json:"modules,omitempty"`
	Sysctls map[string]string `json:"sysctls,omitempty"`
	Persist []string          `json:"persist,omitempty"`
}

func printPlan(env *Env, format output.Format, plan render.Plan, file string) error {
	if file != "" {
		for _, f := range plan.Files {
			if string(f.Place)+":"+f.Path == file {
				_, err := fmt.Fprint(env.Out, f.Content)
				return err
			}
		}
		return fmt.Errorf("there is no file %s; -o name lists them", file)
	}
	out := printedPlan{Modules: plan.Modules}
	for _, f := range plan.Files {
		p := printedFile{Place: string(f.Place), Path: f.Path, Link: f.Link, Secret: f.Secret, Content: f.Content}
		if f.Link == "" {
			p.Mode = fmt.Sprintf("%04o", f.Mode.Perm())
		}
		out.Files = append(out.Files, p)
	}
	for _, s := range plan.Sysctls {
		if out.Sysctls == nil {
			out.Sysctls = map[string]string{}
		}
		out.Sysctls[s.Name] = s.Value
	}
	for _, d := range plan.Persist {
		out.Persist = append(out.Persist, d.Path)
	}
	switch format.Shape() {
	case output.JSON:
		return output.Value(env.Out, format, out)
	case output.Name:
		for _, f := range out.Files {
			fmt.Fprintf(env.Out, "%s:%s\n", f.Place, f.Path)
		}
		return nil
	}
	for _, f := range out.Files {
		switch {
		case f.Link != "":
			fmt.Fprintf(env.Out, "==> %s:%s -> %s\n\n", f.Place, f.Path, f.Link)
		default:
			fmt.Fprintf(env.Out, "==> %s:%s (%s)\n%s\n", f.Place, f.Path, f.Mode, strings.TrimSuffix(f.Content, "\n")+"\n")
		}
	}
	if len(out.Modules) > 0 {
		fmt.Fprintf(env.Out, "==> kernel modules of the host\n%s\n\n", strings.Join(out.Modules, "\n"))
	}
	for i, s := range plan.Sysctls {
		if i == 0 {
			fmt.Fprintln(env.Out, "==> kernel parameters of the host")
		}
		fmt.Fprintf(env.Out, "%s = %s\n", s.Name, s.Value)
	}
	return nil
}

// diffFiles compares what the host of a machine would write for two versions; 0: the newest one.
func diffFiles(ctx context.Context, env *Env, r *rendering, format output.Format, configuration string, from, to int32) error {
	before, err := r.plan(ctx, configuration, from)
	if err != nil {
		return err
	}
	after, err := r.plan(ctx, configuration, to)
	if err != nil {
		return err
	}
	differences := machinefiles.Diff(before, after)
	switch format.Shape() {
	case output.JSON:
		if differences == nil {
			differences = []machinefiles.Difference{}
		}
		return output.Value(env.Out, format, differences)
	case output.Name:
		for _, d := range differences {
			fmt.Fprintf(env.Out, "%s:%s\n", d.Place, d.Path)
		}
		return nil
	}
	for _, d := range differences {
		fmt.Fprintf(env.Out, "==> %s:%s %s\n", d.Place, d.Path, d.Kind)
		for _, line := range d.Lines {
			fmt.Fprintln(env.Out, line)
		}
		fmt.Fprintln(env.Out)
	}
	return nil
}
