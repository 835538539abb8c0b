package doctor

import (
	"errors"
	"io/fs"
	"time"

	"nstance.dev/admin/clusterops"
	"nstance.dev/server/objectstore"
)

// authorityLate is how long before its end an authority is worth a warning. Certificates
// for services are good for a year by default, and none outlives the authority.
const authorityLate = 400 * 24 * time.Hour

// Storage judges what was found in the storage of a cluster; err is why nothing was.
func Storage(bucket string, state *clusterops.State, err error, now time.Time) []Finding {
	l := &list{check: "storage"}
	switch {
	case errors.Is(err, clusterops.ErrSettings):
		l.add(Fail, bucket, "correct the flags --storage-…, --secrets-… and --key-…; they must be the servers'", "%v", err)
	case errors.Is(err, fs.ErrNotExist):
		l.add(Fail, bucket, "correct --storage-bucket", "it does not exist: %v", err)
	case errors.Is(err, fs.ErrPermission) || err != nil && has(err.Error(), "AccessDenied", "forbidden", "Forbidden", "permission"):
		l.add(Fail, bucket, "give this user or role the rights that the servers have: list, get, put and delete in the bucket", "access is denied: %v", err)
	case errors.Is(err, objectstore.ErrUnavailable):
		l.add(Fail, bucket, "check the network to the storage, and its endpoint", "it does not answer: %v", err)
	case err != nil:
		l.add(Fail, bucket, "look at the error; 'nstance-admin cluster inspect' repeats it", "%v", err)
	}
	if state == nil || err != nil {
		return l.all
	}
	for _, p := range state.Problems {
		l.add(Fail, p.Key, "'nstance-admin cluster inspect' shows what surrounds it", "%s", p.Error)
	}
	for _, a := range state.Authority {
		if left := a.NotAfter.Sub(now); left < authorityLate {
			l.add(Warn, bucket, "have it made again: docs/security.md, the authority's certificate", "a certificate of the authority ends in %s", span(left))
		}
	}
	if len(state.Authority) == 0 {
		l.add(Fail, bucket, "start a first server, or make the keys with 'nstance-admin cluster init'", "the cluster has no certificate authority yet")
	}
	if len(l.all) == 0 {
		l.add(OK, bucket, "", "%d configurations, %d operators, nothing damaged", len(state.Configs), len(state.Operators))
	}
	all := l.all
	for _, lock := range state.Locks {
		all = append(all, Clock("leader "+lock.Lock, lock.Renewed, now)...)
	}
	return all
}
