package shard

import (
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config"
	"nstance.dev/server/driver"
	"nstance.dev/server/images"
)

func newImageLookups(r *Reign) *images.Lookups {
	opts := images.Options{
		Over: r.stumble, Now: r.now, Log: r.log,
		Interval: func() time.Duration { return r.wanted.config().Server.ImageRefreshInterval.Std() },
		Ended:    r.imageLookedUp,
		Dropped:  func(key string) { r.inquiries.done(imageQuestion(key)) },
	}
	if r.provider.ResolvesImages() {
		opts.Resolve = r.provider.ResolveImage
	}
	return images.NewLookups(opts)
}

// configureImages takes the images of a configuration over. One call at a time.
func (r *Reign) configureImages(cfg *config.Config) {
	wanted := make(map[string]images.Wanted, len(cfg.Images))
	for key, im := range cfg.Images {
		wanted[key] = wantedImage(im)
	}
	r.images.Configure(wanted, func(key string) (string, time.Time) {
		row, ok := r.cache.Image(key)
		if !ok || row.Source == string(images.FromFallback) {
			return "", time.Time{}
		}
		return row.ImageID, row.ResolvedAt
	})
}

// imageLookedUp keeps what an image stands for after a restart, and tells the groups that
// wait for it.
func (r *Reign) imageLookedUp(key string, now images.State, err error) {
	row := cache.Image{Key: key, ImageID: now.ID, ResolvedAt: now.Found, Source: string(now.Source)}
	if now.Err != nil {
		row.Error = now.Err.Error()
	}
	r.cache.PutImage(row)
	r.opts.Metrics.imageLookedUp(err)
	if now.ID != "" || !now.Pending {
		r.inquiries.done(imageQuestion(key))
	}
}

func wantedImage(im config.Image) images.Wanted {
	query := driver.ImageQuery{Owners: im.Owners, ByName: im.Sort == "name", Descending: im.Order != "asc"}
	for _, f := range im.Filters {
		query.Filters = append(query.Filters, driver.ImageFilter{Name: f.Name, Values: f.Values})
	}
	return images.Wanted{Query: query, Fallback: im.Fallback}
}

func imageQuestion(key string) string { return "image " + key }
