package panels

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// Panel is a panel of a dashboard, a choice above one, or an alerting rule.
type Panel struct {
	Title string
	// Queries are what it asks, in PromQL, with values for the variables.
	Queries []string
	// For is how long an alerting rule must hold before it fires.
	For time.Duration
}

// interval is what Grafana makes of $__rate_interval where a scrape is taken every minute.
const interval = "4m"

var labelValues = regexp.MustCompile(`^label_values\((.+), *([a-z_]+)\)$`)

// Read reads a file: alerting rules where it is YAML, and else a dashboard.
func Read(file string, variables map[string]string) ([]Panel, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []Panel
	if filepath.Ext(file) == ".yaml" {
		all, err = Rules(data)
	} else {
		all, err = Dashboard(data, variables)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}

// Dashboard reads a dashboard of Grafana, with the values of its variables.
func Dashboard(data []byte, variables map[string]string) ([]Panel, error) {
	var dashboard struct {
		Title      string
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		return nil, fmt.Errorf("read dashboard: %w", err)
	}
	filled := []string{"$__rate_interval", interval}
	for name, value := range variables {
		filled = append(filled, "$"+name, value)
	}
	fill := strings.NewReplacer(filled...)
	var all []Panel
	for _, v := range dashboard.Templating.List {
		if v.Type != "query" {
			continue
		}
		found := labelValues.FindStringSubmatch(v.Query)
		if found == nil {
			return nil, fmt.Errorf("dashboard %q: variable %s asks %q: it must be label_values(metric, label)", dashboard.Title, v.Name, v.Query)
		}
		all = append(all, Panel{Title: "variable " + v.Name, Queries: []string{fmt.Sprintf(`count by (%[2]s) (%[1]s) unless on () count(%[1]s{%[2]s=""})`, found[1], found[2])}})
	}
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			continue // a row
		}
		one := Panel{Title: p.Title}
		for _, t := range p.Targets {
			one.Queries = append(one.Queries, fill.Replace(t.Expr))
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("dashboard %q has no panel", dashboard.Title)
	}
	return all, nil
}

// Rules reads alerting rules as Prometheus does.
func Rules(data []byte) ([]Panel, error) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				For         model.Duration
			}
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	var all []Panel
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all = append(all, Panel{Title: r.Alert, Queries: []string{r.Expr}, For: time.Duration(r.For)})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("read rules: there is none")
	}
	return all, nil
}

// Operands are what a query compares or combines by sets at its end, each without the comparison;
// of any other query, the query.
func Operands(query string) ([]string, error) {
	root, err := parser.ParseExpr(query)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", query, err)
	}
	return operands(root), nil
}

func operands(e parser.Expr) []string {
	if inner, ok := e.(*parser.ParenExpr); ok {
		return operands(inner.Expr)
	}
	binary, ok := e.(*parser.BinaryExpr)
	if !ok || binary.ReturnBool || !binary.Op.IsComparisonOperator() && binary.Op != parser.LAND {
		return []string{e.String()}
	}
	var all []string
	for _, side := range []parser.Expr{binary.LHS, binary.RHS} {
		if side.Type() == parser.ValueTypeVector {
			all = append(all, operands(side)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
