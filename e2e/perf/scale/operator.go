package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/perf/usage"
	"nstance.dev/operator/collect"
)

// operator is a process of the operator.
type operator struct {
	*kube.Process

	metrics string // host:port
}

// operate starts an operator with the chart's flags and more. It ends with the test, or by
// [kube.Process.Stop]; nobody starts it again.
func (w *world) operate(more ...string) *operator {
	w.t.Helper()
	var addresses [2]string
	for i := range addresses {
		port, err := kube.FreePort()
		if err != nil {
			w.t.Fatal(err)
		}
		addresses[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	args := append([]string{}, w.program.args...)
	args = append(args, "--health-probe-bind-address="+addresses[0], "--metrics-bind-address="+addresses[1])
	log := filepath.Join(w.t.ArtifactDir(), "nstance-operator.log")
	process, err := kube.Run(w.program.path, append(args, more...), w.program.env, log)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		process.Kill()
		if w.t.Failed() {
			w.t.Logf("nstance-operator:\n%s", process.Log(40))
		}
	})
	w.operator = &operator{process, addresses[1]}
	return w.operator
}

// usage returns what the process has taken up to now.
func (w *world) usage(o *operator) usage.Usage {
	w.t.Helper()
	u, err := usage.Of(o.PID())
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// scrape returns the operator's metrics.
func (o *operator) scrape(ctx context.Context) (samples, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.metrics+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("metrics: %s", response.Status)
	}
	return parseSamples(string(text)), err
}

// samples are the values of metrics, by name with labels.
type samples map[string]float64

// parseSamples reads metrics in the text form; what is no number is left out.
func parseSamples(text string) samples {
	out := samples{}
	for line := range strings.Lines(text) {
		i := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64); err == nil {
			out[line[:i]] = value
		}
	}
	return out
}

// sum adds up the samples of a metric that have all the labels, each written as in
// controller="pool".
func (s samples) sum(name string, labels ...string) float64 {
	total := 0.0
	for series, value := range s {
		base, rest, _ := strings.Cut(series, "{")
		all := base == name
		for _, label := range labels {
			all = all && strings.Contains(rest, label)
		}
		if all {
			total += value
		}
	}
	return total
}

// reconciled is how often a controller has looked at an object.
func (s samples) reconciled(controller string) int {
	return int(s.sum("controller_runtime_reconcile_total", fmt.Sprintf("controller=%q", controller)))
}

// idle returns nil if nothing waits to be looked at, and nothing is being looked at.
func (s samples) idle() error {
	depth, workers := s.sum("workqueue_depth"), s.sum("controller_runtime_active_workers")
	if depth+workers > 0 {
		return fmt.Errorf("%v objects wait, and %v are being looked at", depth, workers)
	}
	return nil
}

// look is the pause between two looks at an operator that is to come to rest.
const look = 200 * time.Millisecond

// rest waits until the operator has nothing to do, and still has not after the time for
// which it collects news before they are anything to do.
func (w *world) rest(o *operator) {
	w.t.Helper()
	times := 0
	w.await("the operator has nothing to do", look, func(ctx context.Context) error {
		now, err := o.scrape(ctx)
		if err == nil {
			err = now.idle()
		}
		if times++; err != nil {
			times = 0
			return err
		}
		if times < int(collect.Later/look)+2 {
			return errors.New("it has only just come to rest")
		}
		return nil
	})
}
