import Encoding

/// An answer of the App Store Server API that is an error. The description is one line and quotes nothing from it but the
/// code.
///
/// - Source: Apple, "Error codes".
package struct ServerAPIRefusal: Error, Sendable, Hashable, CustomStringConvertible {
    /// Nil for an error without a code.
    package let code: Int64?
    package let httpStatus: Int

    /// What to do about it.
    package enum Kind: Sendable, Hashable {
        /// The key, the clock or the app's release: the same request fails until one of them is changed.
        case unauthorised
        /// Too many requests.
        case rateLimited
        /// The host may know the answer later.
        case temporary
        /// A revision or pagination token is no longer valid: begin with the first page.
        case pageLost
        /// Neither this transaction nor one like it is known on this host.
        case notFound
        /// The same request will fail again.
        case final
    }

    package init(code: Int64?, httpStatus: Int) {
        self.code = code
        self.httpStatus = httpStatus
    }

    /// Reads an error. An error's `Content-Type` varies, so the body decides.
    package init(httpStatus: Int, body: [UInt8]) {
        self.httpStatus = httpStatus
        code = (try? JSONDocument(body).root["errorCode"])?.flatMap(\.int64)
    }

    package var kind: Kind {
        switch (httpStatus, code) {
        case (401, _): .unauthorised
        case (429, _), (_, 4_290_000): .rateLimited
        case (_, 4_000_005), (_, 4_000_014), (_, 4_000_017): .pageLost
        // The account or the app is not found for the moment.
        case (_, 4_040_002), (_, 4_040_004), (_, 4_040_006): .temporary
        case (_, 4_040_010): .notFound
        case (500..., _): .temporary
        default: .final
        }
    }

    package var description: String {
        let what =
            switch kind {
            case .unauthorised:
                "the App Store rejects the key: check the key, its ids, the clock, and that the app is released"
            case .rateLimited: "the App Store received too many requests"
            case .temporary: "the App Store has a temporary failure"
            case .pageLost: "the App Store no longer knows the place in the list"
            case .notFound: "the App Store does not know the transaction"
            case .final: cause.map { "the App Store refuses the request: \($0)" } ?? "the App Store refuses the request"
            }
        return what + (code.map { " (error \($0))" } ?? " (HTTP status \(httpStatus))")
    }
}
