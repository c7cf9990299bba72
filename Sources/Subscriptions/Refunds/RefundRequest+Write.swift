import Encoding

extension RefundRequest {
    /// The answer as a request to the store, without what the store says to it; nil without an answer, and without consent.
    package var write: StoreWrite? {
        guard let answer, let content = answer.content else { return nil }
        let subject = StoreWrite.RefundSubject(
            originalTransactionId: purchase.originalTransactionId, transactionId: purchase.transactionId)
        return StoreWrite(
            .answerRefund(subject, content),
            // An answer that replaces another one is another request.
            requestIdentifier: "refund-\(position)-\(answer.statedAt.milliseconds)",
            by: answer.operatorName ?? answer.author.rawValue,
            reason: "\(store.name) asked about a refund\(reason.map { ", reason \($0)" } ?? "")")
    }
}
