package interruption

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Paths and headers of the metadata server of Google.
const (
	googleRoot        = "/computeMetadata/v1/"
	googlePreemptible = googleRoot + "instance/scheduling/preemptible"
	googlePreempted   = googleRoot + "instance/preempted"

	googleHeader = "Metadata-Flavor"
	googleFlavor = "Google"
)

// The server holds a question about a change for so long, and is given a little more time to
// answer: a connection that was lost is noticed then.
const (
	googleHold  = time.Minute
	googleGrace = 10 * time.Second
)

// google is used by one goroutine.
type google struct {
	client *client
}

// get asks for a value. The header in the answer shows that it is Google's.
func (g *google) get(ctx context.Context, timeout time.Duration, path string) (answer, error) {
	ans, err := g.client.ask(ctx, timeout, http.MethodGet, path, http.Header{googleHeader: {googleFlavor}})
	switch {
	case err != nil:
		return ans, err
	case ans.header.Get(googleHeader) != googleFlavor:
		return ans, fmt.Errorf("metadata %s: status %d, not by Google", path, ans.status)
	case ans.status != http.StatusOK:
		return ans, ans.unexpected(path)
	}
	return ans, nil
}

func (g *google) mine(ctx context.Context) (bool, error) {
	_, err := g.get(ctx, askTimeout, googleRoot)
	return err == nil, err
}

func (g *google) spare(ctx context.Context) (bool, error) {
	ans, err := g.get(ctx, askTimeout, googlePreemptible)
	return isTrue(ans), err
}

func isTrue(a answer) bool { return strings.TrimSpace(a.body) == "TRUE" }

// wait asks for the value, and from then on for a change of it since the answer before, so
// that no change falls between two questions.
func (g *google) wait(ctx context.Context, interval time.Duration, log *slog.Logger) (Notice, error) {
	trouble := trouble{log: log}
	for last := ""; ; {
		path, timeout := googlePreempted, askTimeout
		if last != "" {
			path += "?" + url.Values{
				"wait_for_change": {"true"}, "last_etag": {last}, "timeout_sec": {strconv.Itoa(int(googleHold.Seconds()))},
			}.Encode()
			timeout = googleHold + googleGrace
		}
		pause := time.After(interval) // an answer that took longer is followed by a question at once
		ans, err := g.get(ctx, timeout, path)
		switch {
		case ctx.Err() != nil:
			return Notice{}, ctx.Err()
		case err == nil && isTrue(ans):
			return Notice{Action: "terminate"}, nil
		}
		trouble.note(ctx, err)
		last = ans.header.Get("ETag")
		select {
		case <-pause:
		case <-ctx.Done():
			return Notice{}, ctx.Err()
		}
	}
}
