package backoff

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A pass that failed is made again after a pause that doubles with each failure. It ends at
// half a minute: the default goes to a quarter of an hour, for which a pool would stand still
// after an outage of the API server.
const (
	firstRetry   = 5 * time.Millisecond
	longestRetry = 30 * time.Second
)

// Limiter returns what says when passes that failed are made again. Each controller has its own:
// it counts failures by the names of objects.
func Limiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, longestRetry)
}
