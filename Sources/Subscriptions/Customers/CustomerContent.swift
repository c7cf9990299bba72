import Encoding

extension ContentAccess {
    /// Evaluates issues against all subscriptions of a customer: an issue is readable if any of them unlocks it. See
    /// ``Subscription/contentAccess(issues:at:)``.
    package static func of(_ subscriptions: [Subscription], issues: [Instant], at instant: Instant) -> [ContentAccess] {
        var reached: [Instant: ContentAccess] = [:]
        for published in issues { reached[published] = ContentAccess(publishedAt: published, reachedBy: nil) }
        for subscription in subscriptions {
            for access in subscription.contentAccess(issues: issues, at: instant)
            where reached[access.publishedAt]?.reachedBy == nil {
                reached[access.publishedAt] = access
            }
        }
        return reached.values.sorted { $0.publishedAt < $1.publishedAt }
    }
}
