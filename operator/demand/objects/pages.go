package objects

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"nstance.dev/operator/compact"
)

// Paged returns what makes informers that list in pages of that many objects. An API server
// that can stream a list is asked to do that instead.
func Paged(size int) compact.NewInformer {
	return func(lw toolscache.ListerWatcher, of runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
		return toolscache.NewSharedIndexInformer(pages{lw, toolscache.ToListerWatcherWithContext(lw), int64(size)}, of, resync, by)
	}
}

// pages lists in pages of a size.
type pages struct {
	toolscache.ListerWatcher
	toolscache.ListerWatcherWithContext

	size int64
}

// ListWithContext implements [toolscache.ListerWithContext].
func (p pages) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	if o.Limit > 0 {
		o.Limit = p.size
	}
	return p.ListerWatcherWithContext.ListWithContext(ctx, o)
}

// IsWatchListSemanticsUnSupported is what informers ask whether lists can be streamed.
func (p pages) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(p.ListerWatcher)
}
