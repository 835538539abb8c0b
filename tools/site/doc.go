// Package site makes a static site of the pages in docs/ and at the root of the repository.
//
// The pages stay where they are and are read where they are; docs/site.yaml gives them
// their place: get started, how to, reference, explain, develop. Each page stands in it
// once. A page that does not, a link that leads nowhere and a picture that was not drawn
// fail the build, so what is published is whole.
//
// Readers need no network and no server: search is a script of the site, over text that
// lies beside it, and mermaid diagrams were drawn before ([Draw]) and are committed in
// docs/pictures, for a script of three megabytes is much to load for a dozen arrows.
//
// [Build] writes the site of a repository; everything else serves it.
package site
