package gcpfake

import (
	"cmp"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
)

// listRequest is what all requests for a listing have in common.
type listRequest interface {
	proto.Message
	GetFilter() string
	GetMaxResults() uint32
	GetOrderBy() string
	GetPageToken() string
}

// named is an entry of a listing.
type named interface {
	proto.Message
	GetName() string
}

// timed is an entry that knows when it was made.
type timed interface{ GetCreationTimestamp() string }

// cursor is where an entry stands in a listing, and with that a page token.
type cursor struct{ Made, Name string }

func cursorOf(m named) cursor {
	at := cursor{Name: m.GetName()}
	if t, ok := m.(timed); ok {
		at.Made = t.GetCreationTimestamp()
	}
	return at
}

// orders are the orders that the service has: by name, or the newest first.
var orders = map[string]func(a, b cursor) int{
	"":     func(a, b cursor) int { return cmp.Compare(a.Name, b.Name) },
	"name": func(a, b cursor) int { return cmp.Compare(a.Name, b.Name) },
	"creationTimestamp desc": func(a, b cursor) int {
		return cmp.Or(cmp.Compare(b.Made, a.Made), cmp.Compare(a.Name, b.Name))
	},
}

// paged returns one page of those entries that the request's filter lets through, as
// copies, and the token of the next page; nil on the last one. A token names the last
// entry of the page before it, so that entries which come or go meanwhile move no
// others.
func paged[M named](c *Cloud, all []M, in listRequest) (page []M, next *string, err error) {
	return pagedBy(c, all, in, func(m M) cursor { return cursorOf(m) })
}

// pagedBy is paged for entries that have no name of their own.
func pagedBy[M proto.Message](c *Cloud, all []M, in listRequest, at func(M) cursor) (page []M, next *string, err error) {
	f, err := parseFilter(in.GetFilter())
	if err != nil {
		return nil, nil, err
	}
	order, ok := orders[in.GetOrderBy()]
	if !ok {
		return nil, nil, invalidField("orderBy", in.GetOrderBy(), "Only name and creationTimestamp desc are supported.")
	}
	var from cursor
	if token := in.GetPageToken(); token != "" {
		if from, err = parseToken(token); err != nil {
			return nil, nil, invalidField("pageToken", token, "Invalid page token.")
		}
	}
	size, err := c.pageSize(in)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(all, func(a, b M) int { return order(at(a), at(b)) })
	for _, entry := range all {
		fits, err := f.match(entry.ProtoReflect())
		switch {
		case err != nil:
			return nil, nil, err
		case !fits || in.GetPageToken() != "" && order(at(entry), from) <= 0:
		case len(page) == size:
			return page, new(at(page[size-1]).token()), nil
		default:
			page = append(page, proto.CloneOf(entry))
		}
	}
	return page, nil, nil
}

func (at cursor) token() string {
	return base64.URLEncoding.EncodeToString([]byte(at.Made + "\n" + at.Name))
}

func parseToken(token string) (cursor, error) {
	text, err := base64.URLEncoding.DecodeString(token)
	made, name, ok := strings.Cut(string(text), "\n")
	if err == nil && !ok {
		err = errors.New("not a page token")
	}
	return cursor{made, name}, err
}

// maxPage is the most entries in a page that can be asked for.
const maxPage = 500

// pageSize is how many entries a page has: what was asked for, at most what the cloud
// gives.
func (c *Cloud) pageSize(in listRequest) (int, error) {
	asked := int(in.GetMaxResults())
	switch {
	case asked > maxPage:
		return 0, invalidField("maxResults", strconv.Itoa(asked), "Values must be in the range 0 to %d.", maxPage)
	case asked == 0:
		return c.opts.PageSize, nil
	}
	return min(asked, c.opts.PageSize), nil
}
