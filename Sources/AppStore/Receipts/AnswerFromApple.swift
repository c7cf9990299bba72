import Encoding

/// An answer that one of Apple's hosts gave over TLS. Only the client that posted the request makes one.
package struct AnswerFromApple: Sendable {
    package let answer: ReceiptAnswer
    package let host: ReceiptHost
    /// The receipt that was asked about.
    package let receipt: Receipt
    /// Our clock.
    package let receivedAt: Instant

    package init(answer: ReceiptAnswer, host: ReceiptHost, receipt: Receipt, receivedAt: Instant) {
        self.answer = answer
        self.host = host
        self.receipt = receipt
        self.receivedAt = receivedAt
    }
}
