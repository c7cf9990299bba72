import Subscriptions

/// Which app and environment something signed has to be of. What is nil is not asked.
package struct AppExpectation: Sendable {
    package var bundleId: String?
    /// Production alone has one for certain.
    package var appAppleId: Int64?
    package var environments: Set<Environment>?

    package init(bundleId: String? = nil, appAppleId: Int64? = nil, environments: Set<Environment>? = nil) {
        self.bundleId = bundleId
        self.appAppleId = appAppleId
        self.environments = environments
    }

    /// What a configured app takes. An environment that has no name here yet is taken as well: it is kept apart from
    /// all others, and nothing is lost.
    init(_ app: App) {
        bundleId = app.bundleId
        appAppleId = app.appAppleId
        environments = app.environments.union([.unknown])
    }

    /// Checks a notification and everything inside it.
    package func check(_ notification: V2Notification) throws(Refusal) {
        let claim = notification.claim
        try check(claim, .notification)
        for (part, jws) in notification.parts where part != .notification {
            let inner = AppClaim(jws.payload.root)
            guard inner.environment == claim.environment, part == .renewal || inner.bundleId == claim.bundleId else {
                throw .mismatch(part)
            }
            try check(inner, part)
        }
    }

    /// Checks something that was signed by itself.
    package func check(_ object: SignedObject) throws(Refusal) {
        try check(AppClaim(object.jws.payload.root), object.part)
    }

    private func check(_ claim: AppClaim, _ part: V2Notification.Part) throws(Refusal) {
        // Renewal info names no app.
        if let bundleId, part != .renewal, claim.bundleId != bundleId { throw .appWrong }
        let environment = claim.environment ?? .unknown
        if let environments, !environments.contains(environment) {
            throw .environmentRefused(app: bundleId ?? claim.bundleId)
        }
        let carriesAppleId = part == .notification || part == .appTransaction
        if let appAppleId, carriesAppleId, environment == .production, claim.appAppleId != appAppleId {
            throw .appleIdWrong(app: bundleId ?? claim.bundleId)
        }
    }
}

/// A signed text outside any notification, as the App Store's API and devices hand them out. Not to be trusted.
package struct SignedObject: Sendable {
    package let jws: JWS
    /// What it would be inside a notification.
    package let part: V2Notification.Part

    package init(_ text: ArraySlice<UInt8>) throws(MalformedJWS) {
        jws = try JWS(text)
        let root = jws.payload.root
        part =
            if root["receiptType"] != nil || root["receiptCreationDate"] != nil {
                .appTransaction
            } else {
                root["transactionId"] != nil || root["bundleId"] != nil ? .transaction : .renewal
            }
    }

    init(_ jws: JWS, as part: V2Notification.Part) {
        self.jws = jws
        self.part = part
    }

    package var environment: Environment? { AppClaim(jws.payload.root).environment }
}
