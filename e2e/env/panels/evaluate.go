package panels

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Answers are how many queries have a value, and how many wait for what has not happened.
type Answers struct{ Values, Waiting int }

// Evaluate asks those queries of panels that a test is about, at a time, and returns all that is wrong: a query without
// a value, unless later says by the panel's title why that cannot have happened here, and a reason that is not needed,
// for its panel has values throughout, or does not exist. A query whose parts have values and which cannot be answered is
// wrong too.
func (s *Samples) Evaluate(ctx context.Context, at time.Time, all []Panel, about func(query string) bool, later map[string]string) (Answers, error) {
	var answers Answers
	var wrong []error
	waits := map[string]bool{}
	for _, panel := range all {
		for _, query := range panel.Queries {
			if !about(query) {
				continue
			}
			parts, err := Operands(query)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("panel %q: %w", panel.Title, err))
			}
			if _, err := s.Query(ctx, query, at); err != nil && len(parts) > 1 {
				wrong = append(wrong, fmt.Errorf("panel %q: %w", panel.Title, err))
			}
			for _, part := range parts {
				known, err := s.known(ctx, part, at)
				switch {
				case err != nil:
					wrong = append(wrong, fmt.Errorf("panel %q: %w", panel.Title, err))
				case known:
					answers.Values++
				case later[panel.Title] != "":
					answers.Waiting++
					waits[panel.Title] = true
				default:
					wrong = append(wrong, fmt.Errorf("panel %q has no value: %s", panel.Title, part))
				}
			}
		}
	}
	for _, title := range slices.Sorted(maps.Keys(later)) {
		switch {
		case later[title] == "":
			wrong = append(wrong, fmt.Errorf("panel %q may be without a value, and nothing says why", title))
		case !waits[title]:
			wrong = append(wrong, fmt.Errorf("panel %q has values, or does not exist: take out the reason why it has none (%s)", title, later[title]))
		}
	}
	if answers.Values == 0 {
		wrong = append(wrong, errors.New("no query has a value"))
	}
	return answers, errors.Join(wrong...)
}

// every is how often a rule is evaluated.
const every = time.Minute

// Fires reports whether a rule fires at a time: whether there is a series that it has selected at each evaluation as long
// as it asks for.
func (s *Samples) Fires(ctx context.Context, rule Panel, at time.Time) (bool, error) {
	var still map[string]bool // the series that each evaluation so far has selected
	for ago := time.Duration(0); ago <= rule.For; ago += every {
		selected := map[string]bool{}
		for _, query := range rule.Queries {
			found, err := s.Query(ctx, query, at.Add(-ago))
			if err != nil {
				return false, err
			}
			for _, one := range found {
				if of := one.Metric.String(); still == nil || still[of] {
					selected[of] = true
				}
			}
		}
		if still = selected; len(still) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// known reports whether a query has a series with a value that is a number.
func (s *Samples) known(ctx context.Context, query string, at time.Time) (bool, error) {
	found, err := s.Query(ctx, query, at)
	if err != nil {
		return false, err
	}
	for _, one := range found {
		if one.H != nil || !math.IsNaN(one.F) {
			return true, nil
		}
	}
	return false, nil
}
