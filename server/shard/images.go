package shard

import (
	"context"
	"sync"
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/images"
)

// lookupsAtOnce bounds the look-ups of images under way.
const lookupsAtOnce = 4

// imageLookups keeps the images of the configuration looked up.
type imageLookups struct {
	r    *Reign
	book *images.Book
	wake chan struct{} // has room for one

	configured map[string]images.Wanted // changed only with the configuration
}

func newImageLookups(r *Reign) *imageLookups {
	l := &imageLookups{r: r, book: images.New(r.provider.ResolvesImages()), wake: make(chan struct{}, 1)}
	l.configure(r.wanted.config())
	return l
}

// configure takes the images of a configuration over. One call at a time.
func (l *imageLookups) configure(cfg *config.Config) {
	wanted := make(map[string]images.Wanted, len(cfg.Images))
	for key, im := range cfg.Images {
		wanted[key] = wantedImage(im)
	}
	l.book.Configure(wanted, func(key string) (string, time.Time) {
		row, ok := l.r.cache.Image(key)
		if !ok || row.Source == string(images.FromFallback) {
			return "", time.Time{}
		}
		return row.ImageID, row.ResolvedAt
	})
	for key := range l.configured {
		if _, still := wanted[key]; !still {
			l.r.inquiries.done(imageQuestion(key)) // nobody will look it up
		}
	}
	l.configured = wanted
	l.poke()
}

func wantedImage(im config.Image) images.Wanted {
	query := driver.ImageQuery{Owners: im.Owners, ByName: im.Sort == "name", Descending: im.Order != "asc"}
	for _, f := range im.Filters {
		query.Filters = append(query.Filters, driver.ImageFilter{Name: f.Name, Values: f.Values})
	}
	return images.Wanted{Query: query, Fallback: im.Fallback}
}

// run makes the look-ups that are due until ctx ends.
func (l *imageLookups) run(ctx context.Context) {
	slots := make(chan struct{}, lookupsAtOnce)
	var flights sync.WaitGroup
	defer flights.Wait()
	for {
		due, next := l.book.Due(l.r.now())
		for _, q := range due {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			flights.Go(func() {
				l.look(ctx, q)
				<-slots
				l.poke()
			})
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(next.Sub(l.r.now()), time.Millisecond)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-l.wake:
			timer.Stop()
		}
	}
}

func (l *imageLookups) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// look makes one look-up and tells the groups that wait for it.
func (l *imageLookups) look(ctx context.Context, q images.Query) {
	interval := l.r.wanted.config().Server.ImageRefreshInterval.Std()
	id, err := l.r.provider.ResolveImage(ctx, q.ImageQuery)
	if l.r.stumble(err) || ctx.Err() != nil {
		return
	}
	var news bool
	if err == nil {
		news = l.book.Found(q, id, l.r.now(), interval)
	} else {
		news = l.book.Failed(q, err, l.r.now(), interval)
		l.r.log.WarnContext(ctx, "image not looked up", "image", q.Key, "class", driver.KindOf(err), "error", err)
	}
	s := l.book.Get(q.Key)
	row := cache.Image{Key: q.Key, ImageID: s.ID, ResolvedAt: s.Found, Source: string(s.Source)}
	if s.Err != nil {
		row.Error = s.Err.Error()
	}
	l.r.cache.PutImage(row)
	l.r.opts.Metrics.imageLookedUp(err)
	if news {
		l.r.log.InfoContext(ctx, "image", "image", q.Key, "image_id", s.ID, "source", s.Source)
	}
	if s.ID != "" || !s.Pending {
		l.r.inquiries.done(imageQuestion(q.Key))
	}
}

func imageQuestion(key string) string { return "image " + key }
