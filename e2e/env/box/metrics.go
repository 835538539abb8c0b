package box

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metrics returns what a program says of itself at the host:port of its metrics. It is safe for
// concurrent use.
func Metrics(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", request.URL, response.Status)
	}
	return string(text), err
}

// Metric returns the value of one series, as it is written in the metrics of the
// server at a health address: its name with its labels.
func Metric(ctx context.Context, health, series string) (float64, error) {
	text, err := Metrics(ctx, health)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("the metrics of %s have no %s", health, series)
}

// listings is the count of the listings that a leader has asked its provider for.
const listings = `nstance_provider_call_seconds_count{operation="list"}`

// Audited waits until a leader has compared all machines with all records that many
// times more: whatever it would make, take for lost or remove, it has found by then.
func (b *Box) Audited(times int) {
	b.t.Helper()
	var leader string
	var start float64
	b.Await(fmt.Sprintf("a leader has looked through all machines %d times", times), func() error {
		addrs, err := b.Leader()
		if err != nil {
			return err
		}
		now, err := Metric(b.t.Context(), addrs.Health, listings)
		if err != nil {
			return err
		}
		if leader != addrs.Health || now < start { // another one counts anew
			leader, start = addrs.Health, now
		}
		// The first listing may have been under way.
		if seen := int(now - start); seen <= times {
			return fmt.Errorf("%d listings", seen)
		}
		return nil
	})
}
