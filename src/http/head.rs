//! Requests and responses without their bodies: what keys, costs and verdicts are read from.

use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri, Version};

/// A request without its body.
///
/// Functions of yours get this instead of a `Request<B>`, so that none of them depends on the type of a body.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    method: &'a Method,
    uri: &'a Uri,
    version: Version,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

impl<'a> RequestHead<'a> {
    /// What `request` says before its body.
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// Its method.
    pub fn method(&self) -> &'a Method {
        self.method
    }

    /// Its target. Inside of a nested axum router the prefix is missing from the path; axum's `OriginalUri` has it.
    pub fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// The version of HTTP.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Its header fields.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// What servers and other middleware left with it.
    pub fn extensions(&self) -> &'a Extensions {
        self.extensions
    }
}

/// A response without its body.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

impl<'a> ResponseHead<'a> {
    /// What `response` says before its body.
    pub fn of<B>(response: &'a Response<B>) -> Self {
        Self { status: response.status(), headers: response.headers(), extensions: response.extensions() }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Its header fields.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// What the handler left with it.
    pub fn extensions(&self) -> &'a Extensions {
        self.extensions
    }
}
