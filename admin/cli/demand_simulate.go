package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	"nstance.dev/admin/simulate"
)

// maxNeedsSize is the size of the largest file of needs that is read, in bytes.
const maxNeedsSize = 64 << 20

func newDemandSimulateCommand(env *Env) *cobra.Command {
	var format output.Format
	var files bookFlags
	cmd := &cobra.Command{
		Use:   "simulate NEEDS",
		Short: "Show what would be bought for needs, and why",
		Long: `Show what a shard with a configuration would buy for the needs of a file, what an
hour of it costs, and what cannot be had. It is the decision that a server makes, as
if there were no machine yet. Nothing is bought, and no server is asked.

The file is YAML or JSON. A need is so many Pods that are alike:

  clusters:
    default:                       # the tenant whose cluster it is
      needs:
      - name: web
        pods: 12
        requests: {cpu: 500m, memory: 1Gi}
        requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
        tolerations: [{key: batch, operator: Exists}]
        priority: 0
        interruption_penalty: 0.50 # dollars
      daemon_sets:
      - requests: {cpu: 100m, memory: 128Mi}

Instead of pods and requests it may have aggregate and min_unit, what all of it comes
to and what has to fit into one machine. Further members are alternatives, spread,
same, all_or_nothing and reclamation_penalty.`,
		Example: `  nstance-admin demand simulate needs.yaml --config config/us-west-2a.jsonc
  nstance-admin demand simulate - --config config/us-west-2a.jsonc --types types.json -o json < needs.json`,
		Args: usedArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			data, err := readInput(env, args[0], maxNeedsSize)
			if err != nil {
				return err
			}
			name := args[0]
			if name == "-" {
				name = stdinName
			}
			needs, err := simulate.Parse(data)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			now := env.Now()
			cfg, book, err := files.book(env, now)
			if err != nil {
				return err
			}
			plan, err := simulate.Run(cfg, book, needs, now)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			files.problemsOf(env.Err, book)
			return printPurchases(env.Out, format, plan)
		},
	}
	files.add(cmd)
	addOutputFlag(cmd, &format, output.Table, output.JSON, output.YAML)
	return cmd
}

func printPurchases(w io.Writer, format output.Format, plan simulate.Plan) error {
	if format.Shape() == output.JSON {
		return output.Value(w, format, plan)
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "CLUSTER\tNEED\tMACHINES\tGROUP\tTYPE\tCAPACITY\tUSD/H\tWHY")
	for _, p := range plan.Purchases {
		fmt.Fprintln(t, strings.Join([]string{
			p.Cluster, cmpDash(output.Cell(p.Need)), fmt.Sprint(p.Machines), p.Group, output.Cell(p.InstanceType), p.CapacityType, dollars(int64(p.HourlyCost)), p.Why,
		}, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s USD an hour\n", dollars(int64(plan.HourlyCost)))
	for _, s := range plan.Shortfalls {
		var missing []string
		for _, name := range slices.Sorted(maps.Keys(s.Missing)) {
			missing = append(missing, amount(name, s.Missing[name]))
		}
		fmt.Fprintf(w, "cannot be bought for need %s of %s: %s (%s)\n", cmpDash(output.Cell(s.Need)), s.Cluster, strings.Join(missing, ", "), s.Reason)
	}
	return nil
}

func cmpDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// amount is so much of a resource, as people write it.
func amount(name string, n int64) string {
	switch name {
	case "cpu":
		return fmt.Sprintf("cpu %dm", n)
	case "memory", "ephemeral-storage":
		return fmt.Sprintf("%s %dMi", name, (n+1<<20-1)>>20)
	}
	return fmt.Sprintf("%s %d", name, n)
}
