package demandloop

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"nstance.dev/server/demand"
)

// Picture is what the demand mode of a shard knows of one cluster, for people.
type Picture struct {
	Connected bool // its operator has a session
	Needs     []demand.NeedView
	Machines  []demand.MachineView
	// Planned is what the last cycle decided and did not do, because of a pause or a dry run.
	Planned []demand.Action
	// Replacements are those of machines of the cluster that are under way.
	Replacements []demand.ConsolidationView
	// Explained says of the only one of Needs how it is served; nil: all were asked for, or there are none or several.
	Explained *demand.Explained
}

// inspect asks for the picture of a cluster.
type inspect struct {
	cluster string
	need    string       // hexadecimal digits that the keys of needs begin with; empty: of all
	reply   chan Picture // has room for one
}

func (inspect) letter() {}

// Inspect returns what is known of a cluster; with the first hexadecimal digits of the keys of needs, of those needs
// alone. It costs the loop some time for each need and machine of the shard, so it is for people and not for loops.
func (l *Loop) Inspect(ctx context.Context, cluster, need string) (Picture, error) {
	reply := make(chan Picture, 1)
	if err := l.mailbox.send(ctx, inspect{cluster, need, reply}); err != nil {
		return Picture{}, fmt.Errorf("inspect the demand of %s: %w", cluster, err)
	}
	select {
	case p := <-reply:
		return p, nil
	case <-l.mailbox.done:
		return Picture{}, fmt.Errorf("inspect the demand of %s: %w", cluster, errTermOver)
	case <-ctx.Done():
		return Picture{}, fmt.Errorf("inspect the demand of %s: %w", cluster, ctx.Err())
	}
}

// picture is what is known of a cluster now, or of needs of it.
func (c *core) picture(cluster, need string) Picture {
	p := Picture{Connected: c.clusters[cluster].live(), Needs: c.engine.Needs(cluster)}
	if need != "" {
		p.Needs = slices.DeleteFunc(p.Needs, func(n demand.NeedView) bool { return !strings.HasPrefix(hex.EncodeToString(n.Key[:]), need) })
		if len(p.Needs) == 1 {
			if why, ok := c.engine.Explain(cluster, p.Needs[0].Key); ok {
				p.Explained = &why
			}
		}
		return p
	}
	p.Machines = c.engine.Machines(cluster)
	for _, a := range c.planned {
		if a.Cluster == cluster {
			p.Planned = append(p.Planned, a)
		}
	}
	for _, r := range c.engine.Consolidations() {
		if r.Cluster == cluster {
			p.Replacements = append(p.Replacements, r)
		}
	}
	return p
}

// plan keeps what a cycle has decided and is not done.
func (c *core) plan(actions []demand.Action) {
	c.planned = c.planned[:0]
	for _, a := range actions {
		if a.Disposition != demand.Execute {
			c.planned = append(c.planned, a)
		}
	}
}

// counted asks what there is.
type counted struct{ reply chan demand.Census } // has room for one

func (counted) letter() {}

// censusWait is how long a scrape waits for the loop.
const censusWait = time.Second

// census counts what the shard has; false: there was no answer in time.
func (l *Loop) census(ctx context.Context) (demand.Census, bool) {
	ctx, cancel := context.WithTimeout(ctx, censusWait)
	defer cancel()
	reply := make(chan demand.Census, 1)
	if l.mailbox.send(ctx, counted{reply}) != nil {
		return demand.Census{}, false
	}
	select {
	case c := <-reply:
		return c, true
	case <-l.mailbox.done:
	case <-ctx.Done():
	}
	return demand.Census{}, false
}
