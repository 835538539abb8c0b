package provisioning

import (
	"time"

	"nstance.dev/server/cache"
	"nstance.dev/server/config/document"
	"nstance.dev/server/config/effective"
	"nstance.dev/server/driver"
	"nstance.dev/server/images"
)

// newLookups keeps what images stand for looked up. What an image stands for after a restart
// is kept, and the groups are told that wait for it.
func newLookups(opts Options, waiting *dependencies) *images.Lookups {
	o := images.Options{
		Over: opts.Over, Now: opts.Now, Log: opts.Log,
		Interval: func() time.Duration { return opts.Groups.Config().Server.ImageRefreshInterval.Std() },
		Ended: func(key string, now images.State, err error) {
			opts.Cache.PutImage(imageRow(key, now))
			opts.Metrics.imageLookedUp(err)
			if now.ID != "" || !now.Pending {
				waiting.done(imageDependency(key))
			}
		},
		Dropped: func(key string) { waiting.done(imageDependency(key)) },
	}
	if opts.Provider.ResolvesImages() {
		o.Resolve = opts.Provider.ResolveImage
	}
	return images.NewLookups(o)
}

func imageRow(key string, now images.State) cache.Image {
	row := cache.Image{Key: key, ImageID: now.ID, ResolvedAt: now.Found, Source: string(now.Source)}
	if now.Err != nil {
		row.Error = now.Err.Error()
	}
	return row
}

// configureImages takes the images of a configuration over. One call at a time.
func (r *resolver) configureImages(cfg *effective.Config) {
	wanted := make(map[string]images.Wanted, len(cfg.Images))
	for key, im := range cfg.Images {
		wanted[key] = wantedImage(im)
	}
	r.images.Configure(wanted, func(key string) (string, time.Time) {
		row, ok := r.opts.Cache.Image(key)
		if !ok || row.Source == string(images.FromFallback) {
			return "", time.Time{}
		}
		return row.ImageID, row.ResolvedAt
	})
}

func wantedImage(im document.Image) images.Wanted {
	query := driver.ImageQuery{Owners: im.Owners, ByName: im.Sort == "name", Descending: im.Order != "asc"}
	for _, f := range im.Filters {
		query.Filters = append(query.Filters, driver.ImageFilter{Name: f.Name, Values: f.Values})
	}
	return images.Wanted{Query: query, Fallback: im.Fallback}
}

func imageDependency(key string) string { return "image " + key }
