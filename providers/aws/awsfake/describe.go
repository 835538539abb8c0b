package awsfake

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// describeInstances shows the machines as they were a lag ago.
func (c *Cloud) describeInstances(in *ec2.DescribeInstancesInput) (any, error) {
	then := c.seen()
	if len(in.InstanceIds) > 0 && in.MaxResults != nil {
		return nil, refuse("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	machines, err := c.named(in.InstanceIds, then)
	if err != nil {
		return nil, err
	}
	keep, err := filtered(in.Filters, machineFilters(then))
	if err != nil {
		return nil, err
	}
	machines = slices.DeleteFunc(slices.Clone(machines), func(m *machine) bool { return !m.shows(then, c.opts.Linger) || !keep(m) })
	if c.hidden && len(in.InstanceIds) == 0 {
		machines = nil
	}
	shown, next, err := page(c, machines, in.MaxResults, in.NextToken, func(m *machine) int { return m.n })
	if err != nil {
		return nil, err
	}
	r := &instancesReply{NextToken: next}
	for _, m := range shown {
		last := len(r.Reservations.Items) - 1
		if last < 0 || r.Reservations.Items[last].ReservationID != m.reservation {
			r.Reservations.Items = append(r.Reservations.Items, reservationItem{ReservationID: m.reservation, OwnerID: c.account.ID})
			last++
		}
		of := &r.Reservations.Items[last].Instances
		of.Items = append(of.Items, m.describe(c, then))
	}
	return r, nil
}

// named returns the machines of the ids, or all for no ids, if each is known at that
// time.
func (c *Cloud) named(ids []string, when time.Time) ([]*machine, error) {
	if len(ids) == 0 {
		return c.machines, nil
	}
	var found []*machine
	var unknown []string
	for _, id := range ids {
		if !wellFormed(id, "i-") {
			return nil, refuse("InvalidInstanceID.Malformed", `Invalid id: "%s"`, id)
		}
		m := c.find(id)
		if m == nil || !m.shows(when, c.opts.Linger) {
			unknown = append(unknown, id)
			continue
		}
		found = append(found, m)
	}
	switch len(unknown) {
	case 0:
		return found, nil
	case 1:
		return nil, refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", unknown[0])
	default:
		return nil, refuse("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(unknown, ", "))
	}
}

// wellFormed reports whether id is a prefix and 8 or 17 hexadecimal digits.
func wellFormed(id, prefix string) bool {
	digits, ok := strings.CutPrefix(id, prefix)
	return ok && (len(digits) == 8 || len(digits) == 17) && strings.Trim(digits, "0123456789abcdef") == ""
}

// filters are what entries can be searched by: the values that an entry has for
// each name of a filter.
type filters[T any] map[string]func(T) []string

func one(value string) []string { return []string{value} }

func machineFilters(then time.Time) filters[*machine] {
	return filters[*machine]{
		"availability-zone":  func(m *machine) []string { return one(m.subnet.Zone) },
		"client-token":       func(m *machine) []string { return one(m.token) },
		"image-id":           func(m *machine) []string { return one(m.image.ID) },
		"instance-id":        func(m *machine) []string { return one(m.id) },
		"instance-type":      func(m *machine) []string { return one(m.kind.Name) },
		"private-ip-address": func(m *machine) []string { return one(m.ipv4.String()) },
		"subnet-id":          func(m *machine) []string { return one(m.subnet.ID) },
		"instance-lifecycle": func(m *machine) []string {
			if m.spot {
				return one("spot")
			}
			return nil
		},
		"instance-state-name": func(m *machine) []string {
			at, _ := m.life.at(then)
			return one(string(at.state))
		},
		"tag":     func(m *machine) []string { return tagPairs(m.tags) },
		"tag-key": func(m *machine) []string { return slices.Collect(maps.Keys(m.tags)) },
	}
}

// tagPairs are tags as key=value, which the filters tag:<key> look through.
func tagPairs(tags map[string]string) []string {
	var pairs []string
	for key, value := range tags {
		pairs = append(pairs, key+"="+value)
	}
	return pairs
}

const mostFilterValues = 200

// filtered returns whether an entry matches all filters: each by any of its values,
// in which * and ? stand for something else, as "Filter" of the API reference says.
func filtered[T any](wanted []types.Filter, by filters[T]) (func(T) bool, error) {
	for _, f := range wanted {
		name := aws.ToString(f.Name)
		kind, _, _ := strings.Cut(name, ":")
		switch {
		case name == "":
			return nil, missing("Filter.Name")
		case by[kind] == nil, (kind == "tag") != (kind != name):
			return nil, refuse("InvalidParameterValue", "The filter '%s' is invalid", name)
		case len(f.Values) == 0:
			return nil, refuse("InvalidParameterValue", "The filter '%s' has no values", name)
		case len(f.Values) > mostFilterValues:
			return nil, refuse("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d", mostFilterValues)
		}
	}
	return func(entry T) bool {
		for _, f := range wanted {
			kind, key, _ := strings.Cut(aws.ToString(f.Name), ":")
			has := by[kind](entry)
			if !slices.ContainsFunc(f.Values, func(pattern string) bool {
				if kind == "tag" {
					pattern = escape(key) + "=" + pattern
				}
				return slices.ContainsFunc(has, func(value string) bool { return matches(pattern, value) })
			}) {
				return false
			}
		}
		return true
	}, nil
}

func escape(literal string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(literal)
}

// matches reports whether value is what pattern stands for: * is any text, ? any
// character, and a backslash takes the meaning from what follows.
func matches(pattern, value string) bool {
	for {
		if pattern == "" {
			return value == ""
		}
		if pattern[0] == '*' {
			for i := 0; i <= len(value); i++ {
				if matches(pattern[1:], value[i:]) {
					return true
				}
			}
			return false
		}
		literal := pattern[0] != '?'
		if pattern[0] == '\\' && len(pattern) > 1 {
			pattern = pattern[1:]
		}
		if value == "" || literal && pattern[0] != value[0] {
			return false
		}
		pattern, value = pattern[1:], value[1:]
	}
}

// page cuts one page out of entries, which are in order of number, and returns the
// token of the next. Without a limit there is one page, however long.
func page[T any](c *Cloud, entries []T, limit *int32, token *string, number func(T) int) ([]T, string, error) {
	if limit != nil && (*limit < 5 || *limit > 1000) {
		return nil, "", refuse("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value between 5 and 1000.", *limit)
	}
	if token != nil {
		text, err := base64.RawURLEncoding.DecodeString(*token)
		after, notNumber := strconv.Atoi(strings.TrimPrefix(string(text), "after "))
		if err != nil || notNumber != nil {
			return nil, "", refuse("InvalidPaginationToken", "The specified pagination token is not valid.")
		}
		for len(entries) > 0 && number(entries[0]) <= after {
			entries = entries[1:]
		}
	}
	size := len(entries)
	if limit != nil {
		size = min(size, int(*limit), c.opts.PageSize)
	}
	if size == len(entries) {
		return entries, "", nil
	}
	next := base64.RawURLEncoding.EncodeToString([]byte("after " + strconv.Itoa(number(entries[size-1]))))
	return entries[:size], next, nil
}
