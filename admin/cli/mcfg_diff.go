package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"nstance.dev/admin/hostview"
	"nstance.dev/admin/kubeclient"
	"nstance.dev/admin/output"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/hosts/versions"
)

func newMcfgDiffCommand(env *Env, flags *kubeFlags) *cobra.Command {
	var format output.Format
	var of renderFlags
	cmd := &cobra.Command{
		Use:   "diff CONFIGURATION VERSION [VERSION]",
		Short: "Compare two versions: their templates, or the files that a host would write for them",
		Long: `Compare the templates of two versions of a configuration, or, where one version is named,
that of the version with the one that the configuration has now. A field that only
the second has begins with +, one that only the first has with -, and one that
differs with ~. No difference prints nothing, and is no error.

With --machine it compares the files that the host of that machine would write for the two
versions, line by line; where one version is named, with those of the newest one. See
nstance-admin mcfg render for what they follow from.`,
		Example: `  nstance-admin mcfg diff gpu 3 4
  nstance-admin mcfg diff gpu 4
  nstance-admin mcfg diff gpu 3 4 -o json
  nstance-admin mcfg diff gpu 3 4 --machine knd068a3cp3thz5z2mv1gejwfta01`,
		Args:              usedArgs,
		ValidArgsFunction: completeObjects(env, flags, configurationNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			var numbers []int32
			for _, arg := range args[1:] {
				n, err := versionNumber(args[0], arg)
				if err != nil {
					return err
				}
				numbers = append(numbers, n)
			}
			api, err := flags.client(env)
			if err != nil {
				return err
			}
			if of.machine == "" {
				return diffTemplates(cmd.Context(), env, api, format, args[0], numbers)
			}
			r, err := newRendering(cmd.Context(), api, of)
			if err != nil {
				return err
			}
			return diffFiles(cmd.Context(), env, r, format, args[0], numbers[0], append(numbers, 0)[1])
		},
	}
	of.add(cmd, "compare the files that the host of this HostMachine would write")
	addOutputFlag(cmd, &format)
	return cmd
}

// versionNumber reads 4, v4 or gpu-v4.
func versionNumber(configuration, arg string) (int32, error) {
	text := strings.TrimPrefix(strings.TrimPrefix(arg, configuration+"-"), "v")
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 {
		return 0, usagef("version %q must be a number from 1, such as 4 or %s", arg, versions.Name(configuration, 4))
	}
	return int32(n), nil
}

func diffTemplates(ctx context.Context, env *Env, api *kubeclient.Client, format output.Format, configuration string, numbers []int32) error {
	c := &hostsv1.MachineConfiguration{}
	if err := api.Get(ctx, configuration, c); err != nil {
		return err
	}
	templates := []*hostsv1.Template{}
	for _, n := range numbers {
		v := &hostsv1.MachineConfigurationVersion{}
		if err := api.Get(ctx, versions.Name(configuration, n), v); err != nil {
			return fmt.Errorf("version %d of %s: %w", n, configuration, err)
		}
		templates = append(templates, &v.Spec.Template)
	}
	templates = append(templates, &c.Spec.Template)
	differences, err := hostview.Diff(templates[0], templates[1])
	if err != nil {
		return err
	}
	switch format.Shape() {
	case output.JSON:
		return output.Value(env.Out, format, differences)
	case output.Name:
		for _, d := range differences {
			fmt.Fprintln(env.Out, d.Field)
		}
		return nil
	}
	return printLines(env, hostview.Lines(differences))
}
