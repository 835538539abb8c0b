package demandscale

import (
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// stateMetric is a histogram of the operator: how long it takes to write down the state of a
// machine.
const stateMetric = "nstance_demand_operator_node_state_update_seconds"

// stateTime is within how many seconds 99 of 100 states were written, as far as the buckets of
// the operator's metric tell.
func (w *world) stateTime() float64 {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.MetricsAddr()+"/metrics", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		w.t.Fatalf("metrics of the operator: %v", err)
	}
	return quantile(string(text), stateMetric, 0.99)
}

// quantile returns the bound of the least bucket of a histogram that has a share of q of all that
// was counted, whatever its labels; NaN where nothing was.
func quantile(text, metric string, q float64) float64 {
	counts := map[float64]float64{} // by upper bound
	for line := range strings.Lines(text) {
		series, value, found := strings.Cut(strings.TrimSpace(line), "} ")
		rest, is := strings.CutPrefix(series, metric+"_bucket{")
		if !found || !is {
			continue
		}
		_, label, _ := strings.Cut(rest, `le="`)
		label, _, _ = strings.Cut(label, `"`)
		bound, err := strconv.ParseFloat(label, 64)
		n, err2 := strconv.ParseFloat(value, 64)
		if err == nil && err2 == nil {
			counts[bound] += n
		}
	}
	total := counts[math.Inf(1)]
	bounds := make([]float64, 0, len(counts))
	for bound := range counts {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	for _, bound := range bounds {
		if total > 0 && counts[bound] >= q*total {
			return bound
		}
	}
	return math.NaN()
}
