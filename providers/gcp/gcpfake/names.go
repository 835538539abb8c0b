package gcpfake

import (
	"slices"
	"strings"
	"time"
)

// root is how the names of resources begin in answers, whatever address they were
// asked at.
const root = "https://www.googleapis.com/compute/v1/"

// stamp writes a time as the service does, in RFC 3339 with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000-07:00") }

// path is the full name of what stands below the project.
func (c *Cloud) path(below string) string { return "projects/" + c.opts.Project + "/" + below }

// link is the URL of what stands below the project.
func (c *Cloud) link(below string) string { return root + c.path(below) }

// user is who the calls are made by: the project's default service account.
func (c *Cloud) user() string { return "nstance@" + c.opts.Project + ".iam.gserviceaccount.com" }

// inProject checks the project of a call.
func (c *Cloud) inProject(project string) error {
	if project != c.opts.Project {
		return notFound("projects/" + project)
	}
	return nil
}

// inZone checks the project and the zone of a call.
func (c *Cloud) inZone(project, zone string) error {
	if err := c.inProject(project); err != nil {
		return err
	}
	if !slices.Contains(c.opts.Zones, zone) {
		return invalidField("zone", zone, "Unknown zone.")
	}
	return nil
}

// inRegion checks the project and the region of a call.
func (c *Cloud) inRegion(project, region string) error {
	if err := c.inProject(project); err != nil {
		return err
	}
	if region != c.opts.Region {
		return invalidField("region", region, "Unknown region.")
	}
	return nil
}

// below splits a reference, a URL or a part of one, into the project that it names,
// else ours, and the path below that.
func (c *Cloud) below(ref string) (project, path string) {
	if _, after, ok := strings.Cut(ref, "/compute/v1/"); ok && strings.HasPrefix(ref, "http") {
		ref = after
	}
	rest, ok := strings.CutPrefix(ref, "projects/")
	if !ok {
		return c.opts.Project, ref
	}
	project, path, _ = strings.Cut(rest, "/")
	return project, path
}
