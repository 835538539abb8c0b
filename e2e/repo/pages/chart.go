package pages

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
)

// chart is the operator's, which is what pages have helm install.
type chart struct {
	root  string
	chart *helmchart.Chart
}

const chartDir = "operator/charts/nstance-operator"

func loadChart(root string) (*chart, error) {
	loaded, err := loader.LoadDir(filepath.Join(root, filepath.FromSlash(chartDir)))
	if err != nil {
		return nil, err
	}
	return &chart{root: root, chart: loaded}, nil
}

// helmVerbs are the commands of helm that pages use, with how many arguments each takes, and the flags
// of its own. Helm's commands are in a program, so that they cannot be asked here.
var helmVerbs = map[string]struct {
	args  int
	flags string
}{
	"install":   {2, "values f set set-string set-json create-namespace! wait! timeout version"},
	"upgrade":   {2, "values f set set-string set-json create-namespace! wait! timeout version install! i! reuse-values! reset-values!"},
	"template":  {2, "values f set set-string set-json version"},
	"package":   {1, "destination d version app-version"},
	"uninstall": {1, "wait! timeout keep-history!"},
	"push":      {2, ""},
	"pull":      {1, "version destination d"},
}

func (c *chart) check(args []string) error {
	if len(args) == 0 {
		return errors.New("no command")
	}
	verb, ok := helmVerbs[args[0]]
	if !ok {
		return fmt.Errorf("helm %s: %w", args[0], ErrUnknown)
	}
	flags := pflag.NewFlagSet("helm "+args[0], pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for name := range strings.FieldsSeq(verb.flags + " namespace n kubeconfig kube-context") {
		name, toggle := strings.CutSuffix(name, "!")
		long, short := name, ""
		if len(name) == 1 {
			long, short = "short-"+name, name
		}
		if toggle {
			flags.BoolP(long, short, false, "")
		} else {
			flags.StringArrayP(long, short, nil, "")
		}
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() != verb.args {
		return fmt.Errorf("helm %s takes %d arguments, and here are %d: %s", args[0], verb.args, flags.NArg(), strings.Join(flags.Args(), ", "))
	}
	var errs []error
	for _, arg := range flags.Args() {
		errs = append(errs, exists(c.root, arg))
	}
	return errors.Join(append(errs, c.values(flags))...)
}

// values demands that what is set exists in the chart.
func (c *chart) values(flags *pflag.FlagSet) error {
	set := map[string]any{}
	for name, parse := range map[string]func(string, map[string]any) error{"set": strvals.ParseInto, "set-string": strvals.ParseIntoString, "set-json": strvals.ParseJSON} {
		if flags.Lookup(name) == nil {
			continue
		}
		given, err := flags.GetStringArray(name)
		if err != nil {
			return err
		}
		for _, text := range given {
			if err := parse(text, set); err != nil {
				return fmt.Errorf("--%s %s: %w", name, text, err)
			}
		}
	}
	return c.fits(set)
}

// fits says whether values are among those that the chart's schema knows. What an installation
// has to say, and these values may leave to a file, is filled in.
func (c *chart) fits(values map[string]any) error {
	whole, err := chartutil.CoalesceValues(c.chart, values)
	if err != nil {
		return err
	}
	needed, err := strvals.Parse("config.clusterId=example,config.shards.a.operator_addr=192.0.2.1:8993")
	if err != nil {
		return err
	}
	return chartutil.ValidateAgainstSchema(c.chart, chartutil.CoalesceTables(whole, needed))
}
