package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// contender is one side of a comparison. A call makes one measurement and
// returns its cost, such as seconds per operation or bytes per connection.
type contender func(ctx context.Context) (cost float64, err error)

// interleave lets the contenders measure in turns and returns the least cost of
// each. The round before the first is for warming up and does not count.
func interleave(ctx context.Context, rounds int, contenders ...contender) ([]float64, error) {
	least := make([]float64, len(contenders))
	for i := range least {
		least[i] = math.Inf(1)
	}
	for round := range rounds + 1 {
		for i, measure := range contenders {
			cost, err := measure(ctx)
			if err != nil {
				return nil, fmt.Errorf("contender %d, round %d: %w", i, round, err)
			}
			if round > 0 {
				least[i] = min(least[i], cost)
			}
		}
	}
	return least, nil
}

// Measure is one of the things measured.
type Measure struct {
	Number string // such as "P1"
	Title  string
	run    func(ctx context.Context, env Env) ([]Row, error)
}

// Env is what a measure needs to know of its run.
type Env struct {
	Rounds int    // of each comparison; at least 1
	Root   string // of the repository, for measures that run the go command
}

// Measures are all measures, in order.
func Measures() []Measure {
	return []Measure{
		{"P1", "registrations per second", measureRegistration},
		{"P2", "reports per second", measureReports},
		{"P3", "memory per connected agent", measureMemory},
		{"P4", "one change in a large shard", measureChange},
		{"P5", "a pass with nothing to do", measurePass},
		{"P6", "UpsertGroup to create call", measureUpsert},
		{"P7", "pace of a scale-up", measureScaleUp},
		{"P8", "a shard without its leader", measureFailover},
		{"P9", "take-over of a large shard", measureTakeOver},
		{"P10", "requests to storage", measureRequests},
		{"P11", "changes of groups", measureChanges},
		{"P12", "a file for ten thousand agents", measurePush},
		{"P13", "start of a process", measureStart},
		{"P14", "an agent on its machine", measureAgent},
		{"P15", "a machine that dies", measureRepair},
		{"P16", "a notice of interruption", measureNotice},
		{"P17", "validation of a configuration", measureValidation},
		{"crowd", "two thousand agents", measureCrowd},
	}
}

// Run makes the measurement. It always returns a row: what cannot be measured
// is one that says why.
func (m Measure) Run(ctx context.Context, env Env) []Row {
	if env.Rounds < 1 {
		return []Row{m.failed(errors.New("rounds: there must be one at least"))}
	}
	rows, err := m.run(ctx, env)
	if err != nil {
		rows = append(rows, m.failed(err))
	}
	for i := range rows {
		rows[i].Measure = m.Number
	}
	return rows
}

func (m Measure) failed(err error) Row {
	return Row{Measure: m.Number, Name: m.Title, Err: err}
}

// NewMeasure is a measure of another package, which the bench runs like its own.
func NewMeasure(number, title string, run func(ctx context.Context, env Env) ([]Row, error)) Measure {
	return Measure{Number: number, Title: title, run: run}
}
