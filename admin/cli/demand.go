package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"nstance.dev/admin/output"
	"nstance.dev/admin/simulate"
	"nstance.dev/server/config"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/config/groupfile"
	"nstance.dev/server/offers"
)

func newDemandCommand(env *Env) *cobra.Command {
	return newParentCommand("demand", "Groups of mode demand: what is needed, what is there, and what would be bought",
		newDemandNeedsCommand(env), newDemandShortfallsCommand(env), newDemandMachinesCommand(env), newDemandPlanCommand(env),
		newDemandOffersCommand(env), newDemandSimulateCommand(env), withShardFlags(env, newDemandExplainCommand))
}

// bookFlags name the files that offers are made of.
type bookFlags struct{ config, groups, types string }

func (f *bookFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.config, "config", "", "the configuration of the shard, a `FILE`; required")
	cmd.Flags().StringVar(&f.groups, "groups", "", "the shard's group file, a `FILE`: what the API has set counts as well")
	cmd.Flags().StringVar(&f.types, "types", "", "the provider's instance types, a `FILE` of YAML or JSON; without it, sizes and prices are those that the configuration says")
	_ = cmd.MarkFlagRequired("config")
}

// book makes the offers of the files, as a server of the shard would, and prints what is doubtful of
// the configuration.
func (f *bookFlags) book(env *Env, now time.Time) (*effective.Config, *offers.Book, error) {
	data, err := readInput(env, f.config, maxConfigSize)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := config.Load(f.config, data, config.LoadOptions{Providers: providerRules()})
	if err != nil {
		return nil, nil, &invalidConfigError{path: f.config, err: err}
	}
	var file *groupfile.File
	if f.groups != "" {
		data, err := readInput(env, f.groups, groupfile.MaxBytes)
		if err != nil {
			return nil, nil, err
		}
		if file, err = groupfile.Decode(f.groups, data); err != nil {
			return nil, nil, err
		}
	}
	in := offers.Input{Config: cfg, Now: now}
	if f.types != "" {
		data, err := readInput(env, f.types, maxConfigSize)
		if err != nil {
			return nil, nil, err
		}
		if in.Types, err = simulate.ParseTypes(data); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", f.types, err)
		}
		in.HasCatalogue = true
	}
	groups, problems := effective.Groups(cfg, file)
	for _, problem := range problems {
		fmt.Fprintf(env.Err, "warning: %s\n", output.Cell(problem.String()))
	}
	for _, g := range groups {
		in.Groups = append(in.Groups, g)
	}
	return cfg, offers.Of(in), nil
}

// problemsOf prints why parts of groups are not offered.
func (f *bookFlags) problemsOf(w io.Writer, book *offers.Book) {
	var lines []string
	for key, state := range book.States {
		for _, problem := range state.Problems {
			lines = append(lines, fmt.Sprintf("warning: group %s: %s", key, output.Cell(problem)))
		}
		if state.LeftOut > 0 {
			lines = append(lines, fmt.Sprintf("warning: group %s: %d instance types more meet its requirements, and are left out: they cost more for a processor", key, state.LeftOut))
		}
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintln(w, line)
	}
	if len(lines) > 0 && f.types == "" {
		fmt.Fprintln(w, "hint: no server is asked, so what only the provider knows, sizes and prices of its types, has to come from the file of --types")
	}
}

// offerRow is an offer as it is printed.
type offerRow struct {
	Name         string            `json:"name"`
	Group        string            `json:"group"`
	InstanceType string            `json:"instance_type"`
	CapacityType string            `json:"capacity_type"`
	HourlyPrice  string            `json:"hourly_price"`    // US dollars
	Interruption float64           `json:"interruption"`    // probability within an hour
	Limit        *int64            `json:"limit,omitempty"` // machines
	Allocatable  map[string]int64  `json:"allocatable"`     // cpu in thousandths of a core, others in their unit
	Labels       map[string]string `json:"labels"`
	Pools        map[string]int64  `json:"quota_pools,omitempty"` // units that a machine takes
	// MinSaving is what has to be saved for machines of the group to be replaced by cheaper ones; absent: they are not.
	MinSaving *float64 `json:"min_saving,omitempty"`
}

func newDemandOffersCommand(env *Env) *cobra.Command {
	var format output.Format
	var files bookFlags
	cmd := &cobra.Command{
		Use:   "offers",
		Short: "Show what the groups of a configuration offer",
		Long: `Show what machines could be bought for the groups of mode demand of a
configuration: one line for each group, instance type and way to pay, with the price
of an hour. Parts that are not offered are named on standard error, with the reason.
No server is asked: what only the provider knows, such as the sizes and prices of its
types, comes from the file of --types.`,
		Example: `  nstance-admin demand offers --config config/us-west-2a.jsonc
  nstance-admin demand offers --config config/us-west-2a.jsonc --types types.json -o json`,
		Args:              usedArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			_, book, err := files.book(env, env.Now())
			if err != nil {
				return err
			}
			files.problemsOf(env.Err, book)
			return printOffers(env.Out, format, book)
		},
	}
	files.add(cmd)
	addOutputFlag(cmd, &format, output.Table, output.JSON, output.YAML, output.Name)
	return cmd
}

func printOffers(w io.Writer, format output.Format, book *offers.Book) error {
	rows := []offerRow{}
	savings := map[string]float64{}
	for i := range book.Groups {
		if c := book.Groups[i].Consolidation; c.Enabled {
			savings[book.Groups[i].Name] = float64(c.MinSaving) / 1e6
		}
	}
	for _, o := range book.Offers {
		row := offerRow{
			Name: o.Name, Group: o.Class.Group, InstanceType: o.Class.InstanceType, CapacityType: string(o.Class.CapacityType), HourlyPrice: dollars(o.PricePerHour),
			Interruption: float64(o.Class.InterruptionPPM) / 1e6, Allocatable: map[string]int64{}, Labels: o.Class.Labels, Pools: map[string]int64{},
		}
		if o.Limit >= 0 {
			row.Limit = &o.Limit
		}
		if saving, on := savings[o.Class.Group]; on {
			row.MinSaving = &saving
		}
		for _, a := range o.Class.Allocatable {
			row.Allocatable[a.Name] = a.Amount
		}
		for _, use := range o.Pools {
			row.Pools[use.Pool] = use.Units
		}
		rows = append(rows, row)
	}
	switch format.Shape() {
	case output.JSON:
		return output.Value(w, format, rows)
	case output.Name:
		for _, row := range rows {
			fmt.Fprintln(w, row.Name)
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "GROUP\tTYPE\tCAPACITY\tUSD/H\tINTERRUPTION/H\tCPU\tMEMORY\tPODS\tLIMIT")
	for _, row := range rows {
		limit := "-"
		if row.Limit != nil {
			limit = fmt.Sprint(*row.Limit)
		}
		fmt.Fprintln(t, strings.Join([]string{
			row.Group, output.Cell(row.InstanceType), row.CapacityType, row.HourlyPrice, fmt.Sprintf("%g", row.Interruption),
			fmt.Sprintf("%dm", row.Allocatable["cpu"]), fmt.Sprintf("%dMi", row.Allocatable["memory"]>>20), fmt.Sprint(row.Allocatable["pods"]), limit,
		}, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, group := range slices.Sorted(maps.Keys(savings)) {
		fmt.Fprintf(w, "\nMachines of %s are replaced by cheaper ones that save at least %g %%.\n", group, savings[group]*100)
	}
	return nil
}

// dollars is an amount of millionths of a dollar.
func dollars(micro int64) string {
	text := fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000)
	whole, part, _ := strings.Cut(strings.TrimRight(text, "0"), ".")
	for len(part) < 2 {
		part += "0"
	}
	return whole + "." + part
}
